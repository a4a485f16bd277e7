"""The floors of capture and proxy stand by themselves, and are quick to climb."""

from __future__ import annotations

import subprocess
import sys

CODE = """
import sys
import lego_verl.capture.bytelevel, lego_verl.capture.record
import lego_verl.policies.endpoint, lego_verl.policies.scripted, lego_verl.proxy.server
heavy = {"verl", "torch", "transformers", "ray", "litellm", "openai", "pydantic", "sandbox", "harness_adapters"}
print(sorted(heavy & {name.split(".")[0] for name in sys.modules}), "lego_verl.trial" in sys.modules)
"""


def test_nothing_heavy_and_nothing_from_above_is_imported() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["[]", "False"], done.stdout


def test_capture_knows_no_protocol() -> None:
    code = (
        "import sys, lego_verl.capture.record, lego_verl.capture.bytelevel\n"
        "print('aiohttp' in sys.modules, any(name.startswith('lego_verl.p') for name in sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout.split() == ["False", "False"]

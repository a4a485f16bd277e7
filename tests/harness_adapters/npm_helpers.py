"""What the tests of the npm harnesses share: a context, recorded outputs, and a check against the kept reference."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness_adapters.adapter import HarnessAdapter, HarnessContext
from harness_adapters.registry import load_adapter
from harness_adapters.runtime import build_runtime, cache_folder
from lego_verl.harness_check.check import chosen, examine, make_task, report_of
from lego_verl.harness_check.report import changes, read_report
from lego_verl.harnesses.wanted import harness_recipe
from sandbox.local import LocalBackend
from sandbox.sandbox import Limits

ROOT = Path(__file__).parents[2]
OUTPUTS = ROOT / "tests" / "data" / "harness_outputs"
REFERENCES = ROOT / "docs" / "harness_checks"
CONTEXT = HarnessContext(
    base_url="http://127.0.0.1:4747",
    api_key="key-7",
    model="policy",
    instruction="Mend `it`.\n'Now'.",
    workdir="/testbed",
    home="/home/agent/.harness",
    runtime="/opt/lego/harness",
    python="",
    turn_limit=9,
    seconds=60.0,
)


def context(**changes: Any) -> HarnessContext:
    return replace(CONTEXT, **changes)


def recorded_ending(adapter: HarnessAdapter, case: str) -> str:
    """The adapter's word on an output that its harness once printed (``tests/data/harness_outputs``)."""
    recorded = (OUTPUTS / f"{adapter.name}-{case}.txt").read_text()
    first, _, output = recorded.partition("\n")
    return adapter.ending(int(first.removeprefix("exit code ")), output)


def need_npm() -> None:
    """Skip where there is no npm; in CI that is a failure."""
    if shutil.which("npm") is None and not os.environ.get("CI"):
        pytest.skip("there is no npm on the PATH")


async def check_live(
    name: str, *only: str, options: Mapping[str, Any] | None = None, slots: int = 3
) -> tuple[dict[str, Any], list[str]]:
    """Run scenarios with the released package in the real sandbox; the report, and what differs from the reference."""
    need_npm()
    chosen_options = {**harness_recipe(name).harness.options, **(options or {})}
    adapter, backend = load_adapter(name, chosen_options), LocalBackend()
    built = await build_runtime(adapter.runtime, cache_folder())
    folder = Path(tempfile.mkdtemp(prefix="lego-test-"))
    folder.chmod(0o755)
    try:
        limits = Limits(memory_mb=1024, processes=256, disk_mb=512)
        task = make_task(folder / "task")
        examiner, found = await examine(
            chosen(only or None), adapter, built, backend, task, slow=2.0, slots=slots, limits=limits
        )
    finally:
        shutil.rmtree(folder)
    report = report_of(name, adapter, chosen_options, backend.name, 2.0, examiner, found)
    (reference,) = REFERENCES.glob(f"{name}-*.json")
    return report, changes(read_report(reference), report)


def failures(report: Mapping[str, Any]) -> Sequence[str]:
    return [f"{name}: {failure}" for name, each in report["scenarios"].items() for failure in each["failed"]]

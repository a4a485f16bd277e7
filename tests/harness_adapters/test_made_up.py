"""A harness of another package: found by its entry point, run in a trial, and shown in the docs as it is."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from harness_helpers import ChatServer

from harness_adapters.adapter import HarnessAdapter, HarnessContext
from harness_adapters.registry import adapter_names, load_adapter
from harness_adapters.runtime import BuiltRuntime, build_runtime, cache_folder
from lego_verl.compose import compose_recipe
from lego_verl.config import ConfigError, typed

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "tests/data/made_up_harness"
ADAPTER = PACKAGE / "made_up_agent/adapter.py"
PAGE = ROOT / "docs/09-add-a-harness.md"


@pytest.fixture
def installed(made_up: Path, monkeypatch: pytest.MonkeyPatch) -> HarnessAdapter:
    monkeypatch.syspath_prepend(str(made_up))
    return load_adapter("made_up")


@pytest.fixture
async def built(installed: HarnessAdapter) -> BuiltRuntime:
    return await build_runtime(installed.runtime, cache_folder())


def test_the_docs_show_the_very_files() -> None:
    page = PAGE.read_text()
    assert f"```python\n{ADAPTER.read_text()}```" in page
    assert f"```toml\n{(PACKAGE / 'pyproject.toml').read_text()}```" in page


def test_an_adapter_is_under_a_hundred_lines() -> None:
    assert len(ADAPTER.read_text().splitlines()) < 100


def test_it_is_found_by_its_entry_point(installed: HarnessAdapter) -> None:
    assert "made_up" in adapter_names()
    assert type(installed).__module__ == "made_up_agent.adapter"
    assert installed.runtime.files["agent.py"] == (PACKAGE / "made_up_agent/agent.py").read_text()


def test_it_is_one_word_in_a_recipe(installed: HarnessAdapter) -> None:
    harness = typed(compose_recipe(["harness=made_up", "harness.options.shown=5"], config_name="trial")).harness
    assert (harness.name, dict(harness.options)) == ("made_up", {"shown": 5})
    with pytest.raises(ConfigError, match=r"harness=made_down: there is no such option; .* made_up, mini_swe_agent"):
        compose_recipe(["harness=made_down"], config_name="trial")


def test_a_trial_in_a_process_of_its_own(made_up: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lego_verl.trial", "harness=made_up", f"out={tmp_path}/out", "tasks.check=false"]
    where = {**os.environ, "PYTHONPATH": str(made_up)}
    done = subprocess.run(command, cwd=ROOT, env=where, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    record = json.loads((tmp_path / "out/trial.json").read_text())
    assert (record["harness"], record["outcome"], record["calls"]) == ("made_up", "solved", 4)
    assert (record["proof"]["provenance"], record["proof"]["context"]) == (1.0, 1.0)
    assert record["splits"] == {"first": 1}


def call(arguments: str) -> dict[str, Any]:
    function = {"name": "run", "arguments": arguments}
    return {"content": None, "tool_calls": [{"id": "call_1", "type": "function", "function": function}]}


RUN, DONE = call('{"cmd": "echo $MADE_UP_TELEMETRY >seen; echo 1234567"}'), {"content": "Done."}


@pytest.mark.parametrize(
    ("answers", "ending", "requests"),
    [
        ([RUN, DONE], "finished", 2),
        ([RUN], "turn_limit", 3),
        ([(401, "this session is over")], "failed", 1),
        ([(400, '{"error": {"code": "context_length_exceeded", "message": "too long"}}')], "context_overflow", 1),
        ([(500, "oops"), RUN, DONE], "finished", 3),
        ([call('{"cmd": "ls'), DONE], "finished", 2),
    ],
    ids=["done", "turns", "over", "overflow", "fault", "cut call"],
)
async def test_how_it_ends(
    installed: HarnessAdapter,
    built: BuiltRuntime,
    server: ChatServer,
    tmp_path: Path,
    answers: list[Any],
    ending: str,
    requests: int,
) -> None:
    server.answers = answers
    where = HarnessContext(
        base_url=server.url,
        api_key="key-7",
        model="policy",
        instruction="Mend it.",
        workdir=str(tmp_path),
        home=str(tmp_path),
        runtime=str(built.folder),
        python=built.python,
        turn_limit=3,
        seconds=60.0,
    )
    for path, content in installed.files(where).items():
        Path(path).write_bytes(content)
    process = await asyncio.create_subprocess_exec(
        *installed.command(where),
        cwd=where.workdir,
        env={"PATH": os.defpath, **installed.environment(where)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    output = (await asyncio.wait_for(process.communicate(), 60))[0].decode()
    assert installed.ending(process.returncode, output) == ending, output
    assert len(server.bodies) == requests
    assert server.keys == ["Bearer key-7"] * requests
    if RUN in answers:
        assert (tmp_path / "seen").read_text() == "off\n"


def test_a_process_that_was_killed_did_not_finish(installed: HarnessAdapter) -> None:
    assert installed.ending(None, "") == installed.ending(-9, "Done.") == "failed"

"""SWE-agent: what it is told, what of its checkout is taken, how its ending is read; and a checkout in the sandbox."""

from __future__ import annotations

import importlib
import json
import os
from pathlib import Path
from typing import Any

import pytest
from live_trial import check_exactly_once, live_trial, texts_by_segment

from harness_adapters.adapter import HarnessContext, HarnessError
from harness_adapters.swe_agent import PLACE, SweAgent
from lego_verl.harness_check.scenario import MEND, call
from lego_verl.policies.scripted import Reply
from lego_verl.trial.scripts import reply_of

INSIDE = Path(__file__).parents[2] / "harness_adapters" / "inside"
HOME = "/home/agent/.harness"
CONTEXT = HarnessContext(
    base_url="http://127.0.0.1:4747",
    api_key="key-7",
    model="policy",
    instruction='Mend `it`.\n"Now"\u2028.',
    workdir="/testbed",
    home=HOME,
    runtime="/opt/lego/harness",
    python="/usr/bin/python3.11",
    turn_limit=9,
    seconds=900.0,
)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    files = {
        "sweagent/__init__.py": "STATE = '/root/state.json'\n",
        "sweagent/__pycache__/x.pyc": "\0",
        "sweagent/inspector/index.html": "<p>",
        "config/default.yaml": "agent: {}\n",
        "tools/editor/install.sh": "pip install 'tree-sitter==0.21.3'\n",
        "tools/editor/bin/edit": "#!/usr/bin/env python3\n",
        "tools/registry/install.sh": 'export PYTHONPATH="$bundle_dir/lib":$PYTHONPATH\n',
        "tests/test_all.py": "",
    }
    for name, text in files.items():
        path = tmp_path / "checkout" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return tmp_path / "checkout"


def test_without_a_checkout_it_says_what_it_needs(checkout: Path, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"^harness=swe_agent needs harness\.options\.source="):
        SweAgent()
    with pytest.raises(HarnessError, match=r"there is no sweagent/__init__\.py, so it is no checkout"):
        SweAgent(source=str(tmp_path))
    with pytest.raises(HarnessError, match=r"there is no config/other\.yaml"):
        SweAgent(source=str(checkout), config="other.yaml")


def test_the_checkout_is_taken_along_but_for_what_root_and_a_network_would_be_needed_for(checkout: Path) -> None:
    files = SweAgent(source=str(checkout)).runtime.files
    taken = {name: text for name, text in files.items() if name.startswith("source/")}
    assert taken == {
        "source/sweagent/__init__.py": f"STATE = '{PLACE}/state.json'\n",
        "source/config/default.yaml": "agent: {}\n",
        "source/tools/editor/install.sh": "true\n",
        "source/tools/editor/bin/edit": "#!/usr/bin/env python3\n",
        "source/tools/registry/install.sh": 'export PYTHONPATH="$bundle_dir/lib":$PYTHONPATH\n',
        "source/trajectories/.keep": "",
    }
    assert set(files) - set(taken) == {"harness_path.py", "swe_agent_run.py"}


def test_another_checkout_is_another_runtime(checkout: Path) -> None:
    before = SweAgent(source=str(checkout)).runtime
    (checkout / "tools/editor/bin/edit").write_text("#!/bin/sh\n")
    assert SweAgent(source=str(checkout)).runtime != before


def test_every_package_of_its_runtime_is_pinned(checkout: Path) -> None:
    runtime = SweAgent(source=str(checkout)).runtime
    assert all(package.count("==") == 1 for package in runtime.packages)
    assert any(package.startswith("swe-rex==") for package in runtime.packages)


def test_what_it_is_told(checkout: Path) -> None:
    adapter = SweAgent(source=str(checkout))
    told = json.loads(adapter.files(CONTEXT)[f"{HOME}/trial.yaml"])
    model = told["agent"]["model"]
    assert told["problem_statement"]["text"] == CONTEXT.instruction
    assert (model["name"], model["api_base"], model["api_key"]) == (
        "openai/policy",
        "http://127.0.0.1:4747/v1",
        "key-7",
    )
    assert model["per_instance_call_limit"] == 9
    assert told["agent"]["history_processors"] == []
    assert told["env"]["repo"] == {"type": "preexisting", "repo_name": "testbed"}
    source = "/opt/lego/harness/source/config"
    assert adapter.command(CONTEXT) == [
        *(CONTEXT.python, "-S", "-E", "/opt/lego/harness/swe_agent_run.py"),
        *("--config", f"{source}/default.yaml", "--config", f"{HOME}/trial.yaml", "--output_dir", f"{HOME}/out"),
    ]
    assert adapter.environment(CONTEXT)["SWE_AGENT_ENV_FILE"].startswith(PLACE)


@pytest.mark.parametrize(
    ("status", "ending"),
    [
        ("submitted", "finished"),
        ("submitted (exit_format)", "gave_up"),
        ("exit_cost", "turn_limit"),
        ("submitted (exit_cost)", "turn_limit"),
        ("submitted (exit_context)", "context_overflow"),
        ("submitted (exit_error)", "failed"),
        ("None", "failed"),
    ],
)
def test_its_exit_status_is_read(
    checkout: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, status: str, ending: str
) -> None:
    monkeypatch.syspath_prepend(str(INSIDE))
    launcher: Any = importlib.import_module("swe_agent_run")
    out = tmp_path / "out" / "trial"
    out.mkdir(parents=True)

    def run_from_cli(arguments: list[str]) -> None:
        assert arguments == ["--output_dir", str(tmp_path / "out")]
        (out / "trial.traj").write_text(json.dumps({"info": {"exit_status": status}}))

    monkeypatch.setattr(launcher, "prepare", lambda: None)
    monkeypatch.setattr(launcher, "load", lambda: type("Run", (), {"run_from_cli": staticmethod(run_from_cli)}))
    monkeypatch.setattr("sys.argv", ["swe_agent_run.py", "--output_dir", str(tmp_path / "out")])
    assert SweAgent(source=str(checkout)).ending(launcher.main(), "") == ending


def test_how_it_ended_does_not_hang_on_its_output(checkout: Path) -> None:
    for code in (None, 1, 137):
        assert SweAgent(source=str(checkout)).ending(code, "SWE-agent ended: submitted\n") == "failed"


@pytest.mark.harness_live
async def test_a_checkout_works_and_submits() -> None:
    source = os.environ.get("LEGO_SWE_AGENT")
    if not source:
        pytest.skip("there is no checkout of SWE-agent: name one by LEGO_SWE_AGENT=FOLDER")
    malformed = {"raw": '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"\n</tool_call>'}
    done = reply_of(SweAgent.shell.done)
    replies = iter([call(SweAgent.shell, MEND), malformed, call(SweAgent.shell, "cat answer.txt"), done, done])

    def speak(messages: object) -> Reply:
        return next(replies)

    finished = await live_trial("swe_agent", speak, {"source": source})
    assert str(finished.record.outcome) == "solved", finished.record.error
    check_exactly_once(finished)
    # A turn without a call is shown once, with a complaint, and gone afterwards.
    assert [reason for reason, _ in texts_by_segment(finished)] == ["first", "dropped_turn"]

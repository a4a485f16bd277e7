"""OpenHands: what it is told, how its ending is read, and the released packages in the real sandbox."""

from __future__ import annotations

import gc
import importlib
import json
import os
import shlex
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
from live_trial import check_exactly_once, live_trial, texts_by_segment

from harness_adapters.adapter import HarnessContext, HarnessError
from harness_adapters.openhands import OpenHands
from lego_verl.capture.message import Message
from lego_verl.harness_check.scenario import MEND, call
from lego_verl.policies.scripted import Reply
from lego_verl.trial.scripts import reply_of

INSIDE = Path(__file__).parents[2] / "harness_adapters" / "inside"
SHELL = OpenHands.shell
HOME = "/home/agent/.harness"
CONTEXT = HarnessContext(
    base_url="http://127.0.0.1:4747",
    api_key="key-7",
    model="policy",
    instruction='Mend `it`.\n"Now"\u2028.',
    workdir="/testbed",
    home=HOME,
    runtime="/opt/lego/harness",
    python="/opt/lego/harness/python/bin/python",
    turn_limit=9,
    seconds=900.0,
)


@pytest.fixture(params=["openhands_run", "openhands_headless"])
def launcher(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(INSIDE))
    return importlib.import_module(request.param)


def settings(adapter: OpenHands, context: HarnessContext = CONTEXT) -> dict[str, Any]:
    return dict(json.loads(adapter.files(context)[f"{HOME}/openhands.json"]))


def test_the_settings_say_where_the_model_is_and_what_the_task_is() -> None:
    told = settings(OpenHands())
    assert told["task"] == CONTEXT.instruction
    assert (told["workdir"], told["turn_limit"]) == ("/testbed", 9)
    assert told["llm"] == {
        "model": "openai/policy",
        "base_url": "http://127.0.0.1:4747/v1",
        "api_key": "key-7",
        "timeout": 900,
    }


@pytest.mark.parametrize(
    ("options", "condenser", "tools"),
    [
        ({}, 80, {"terminal": "subprocess", "file_editor": None, "task_tracker": None}),
        ({"condenser": False, "tools": "terminal"}, None, {"terminal": "subprocess"}),
        ({"condenser_events": 12, "terminal": "auto", "tools": "terminal"}, 12, {"terminal": None}),
        ({"terminal": "tmux", "tools": "terminal,grep"}, 80, {"terminal": "tmux", "grep": None}),
    ],
)
def test_options_reach_the_agent(options: dict[str, Any], condenser: int | None, tools: dict[str, str | None]) -> None:
    told = settings(OpenHands(**options))
    assert (told["condenser"] or {}).get("max_size") == condenser
    assert {name: parameters.get("terminal_type") for name, parameters in told["tools"].items()} == tools


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"driver": "gui"}, "harness.options.driver=gui: openhands has sdk, cli here"),
        ({"terminal": "screen"}, "harness.options.terminal=screen: openhands has subprocess, tmux, auto here"),
        ({"tools": "terminal,browser"}, "harness.options.tools=browser: openhands has terminal, file_editor"),
        ({"condenser_events": 11}, "harness.options.condenser_events=11: openhands needs 12 or more"),
    ],
)
def test_an_option_that_it_does_not_have_is_named(options: dict[str, Any], said: str) -> None:
    with pytest.raises(HarnessError, match=said):
        OpenHands(**options)


@pytest.mark.parametrize(("driver", "launched"), [("sdk", "openhands_run.py"), ("cli", "openhands_headless.py")])
def test_it_is_launched_apart_from_the_repository(driver: Any, launched: str) -> None:
    adapter = OpenHands(driver=driver)
    python, *flags, program, told = adapter.command(CONTEXT)
    assert (python, flags, told) == (CONTEXT.python, ["-S", "-E"], f"{HOME}/openhands.json")
    assert program == f"/opt/lego/harness/{launched}"
    assert told in adapter.files(CONTEXT)
    assert adapter.environment(CONTEXT)["INPUTRC"] in adapter.files(CONTEXT)
    assert set(adapter.runtime.files) == {launched, "harness_path.py"}
    assert launched.removesuffix(".py") in adapter.runtime.warm


@pytest.mark.parametrize("driver", ["sdk", "cli"])
def test_every_package_of_its_runtime_is_pinned(driver: Any) -> None:
    runtime = OpenHands(driver=driver).runtime
    names = [package.split("==")[0] for package in runtime.packages if package.count("==") == 1]
    assert len(names) == len(set(names)) == len(runtime.packages)
    assert {"openhands-sdk", "openhands-tools", "litellm"} <= set(names)
    assert not runtime.dependencies
    assert runtime.python == "3.12"


def test_several_lines_are_one_command() -> None:
    lines = "set -e\necho 'a'\n"
    assert shlex.split(SHELL.run(lines).arguments["command"]) == ["bash", "-c", lines]
    assert SHELL.run("ls; pwd").arguments == {"command": "ls; pwd", "security_risk": "LOW"}


def test_launcher_and_adapter_agree(launcher: ModuleType) -> None:
    assert {word: OpenHands().ending(code, "") for word, code in launcher.EXIT_CODES.items()} == {
        "finish": "finished",
        "message": "gave_up",
        "stuck": "gave_up",
        "MaxIterationsReached": "turn_limit",
        "LLMContextWindowExceedError": "context_overflow",
    }
    for code in (None, 1, 137):
        assert OpenHands().ending(code, "OpenHands ended: finish\n") == "failed"


@pytest.mark.parametrize(
    ("status", "events", "ended"),
    [
        ("finished", [("agent", "ls", None), ("agent", "finish", None), ("environment", "finish", None)], "finish"),
        ("finished", [("agent", "finish", None), ("user", None, None), ("agent", None, None)], "message"),
        ("stuck", [("agent", "terminal", None)], "stuck"),
        ("error", [("agent", "terminal", None), ("environment", None, "MaxIterationsReached")], "MaxIterationsReached"),
        ("paused", [("agent", "terminal", None)], "paused"),
    ],
)  # fmt: skip
def test_the_conversation_says_how_it_ended(
    launcher: ModuleType, tmp_path: Path, status: str, events: list[tuple[str, str | None, str | None]], ended: str
) -> None:
    keys = ("source", "tool_name", "code")
    written = [{key: value for key, value in zip(keys, event, strict=True) if value is not None} for event in events]
    if launcher.__name__ == "openhands_run":
        state = SimpleNamespace(
            execution_status=SimpleNamespace(value=status), events=[SimpleNamespace(**event) for event in written]
        )
        assert launcher.how_it_ended(state) == ended
        return
    folder = tmp_path / "0a1b"
    (folder / "events").mkdir(parents=True)
    (folder / "base_state.json").write_text(json.dumps({"execution_status": status}))
    for number, event in enumerate(written):
        (folder / "events" / f"event-{number:05}-x.json").write_text(json.dumps(event))
    assert launcher.how_it_ended(tmp_path) == ended


def test_imports_leave_no_trace_in_the_environment(
    launcher: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = importlib.import_module("harness_path")
    monkeypatch.setattr("sys.path", ["elsewhere"])
    monkeypatch.setenv("LEGO_OUTER_LD_LIBRARY_PATH", "/theirs")
    monkeypatch.setenv("LD_LIBRARY_PATH", "/ours")
    path.prepare()
    assert path.sys.path == [str(INSIDE / "site"), str(INSIDE), "elsewhere"]
    assert os.environ["LD_LIBRARY_PATH"] == "/theirs"
    monkeypatch.setenv("OPENHANDS_SUPPRESS_BANNER", "of the user")
    before = dict(os.environ)
    with path.importing(**launcher.QUIET):
        assert launcher.QUIET.items() <= os.environ.items()
        assert not gc.isenabled()
    gc.unfreeze()
    assert gc.isenabled()
    assert dict(os.environ) == before


# --- the released packages, in the real sandbox


def played(*replies: Reply) -> Any:
    """A policy that gives these replies in turn."""
    due = iter(replies)
    return lambda messages: next(due)


MALFORMED = {"raw": '<tool_call>\n{"name": "terminal", "arguments": {"command": "ls"\n</tool_call>'}
UNKNOWN = {"tool_calls": [{"name": "no_such_tool", "arguments": {"path": "answer.txt"}}]}
WRONG = {"tool_calls": [{"name": "terminal", "arguments": {"no_such_argument": ["ls"]}}]}


@pytest.mark.harness_live
async def test_the_sdk_survives_what_a_policy_may_say() -> None:
    lines = call(SHELL, "set -e\ncat answer.txt\necho 'two lines'")
    said = [call(SHELL, MEND), WRONG, UNKNOWN, lines, reply_of(SHELL.done)]
    finished = await live_trial("openhands", played(*said), {"condenser": False})
    assert str(finished.record.outcome) == "solved", finished.record.error
    check_exactly_once(finished)
    assert [reason for reason, _ in texts_by_segment(finished)] == ["first"]
    assert finished.record.calls == len(said)
    assert finished.record.proof["untrained"] == {}
    assert b"\x1b[?2004" not in finished.harness_log
    assert b"two lines" in finished.harness_log


@pytest.mark.harness_live
@pytest.mark.parametrize("last", [{"text": "I give up."}, MALFORMED], ids=["text", "malformed"])
@pytest.mark.parametrize("driver", ["sdk", "cli"])
async def test_a_message_without_a_call_ends_it(driver: str, last: Reply) -> None:
    """A call that is no JSON is a message, too: a parser of calls finds none in it."""
    finished = await live_trial("openhands", played(call(SHELL, "ls"), last), {"driver": driver})
    assert str(finished.record.outcome) == "gave_up", finished.record.error
    check_exactly_once(finished)
    assert [reason for reason, _ in texts_by_segment(finished)] == ["first"]


@pytest.mark.harness_live
async def test_the_command_line_works_and_finishes() -> None:
    finished = await live_trial("openhands", played(call(SHELL, MEND), reply_of(SHELL.done)), {"driver": "cli"})
    assert str(finished.record.outcome) == "solved", finished.record.error
    check_exactly_once(finished)
    assert [reason for reason, _ in texts_by_segment(finished)] == ["first"]


@pytest.mark.harness_live
async def test_a_history_that_was_condensed_is_trained_once() -> None:
    steps, turn = 16, 0

    def speak(messages: Sequence[Message]) -> Reply:
        nonlocal turn
        if "OpenHands agent" not in messages[0].text:
            return {"text": "What was broken is mended."}
        turn += 1
        if turn == 1:
            return call(SHELL, MEND)
        return call(SHELL, f"echo page {turn}") if turn <= steps else reply_of(SHELL.done)

    finished = await live_trial("openhands", speak, {"condenser": True, "condenser_events": 12})
    assert str(finished.record.outcome) == "solved", finished.record.error
    check_exactly_once(finished)
    found = texts_by_segment(finished)
    rounds = (len(found) - 1) // 2
    assert rounds >= 2
    assert [reason for reason, _ in found] == ["first", *["side_call", "compacted"] * rounds]
    assert all(("is mended" in text) == (reason == "side_call") for reason, text in found)
    assert set(finished.record.proof["untrained"]) == {"side_call"}
    pages = [sum(f'echo page {page}"' in text for _, text in found) for page in range(2, steps + 1)]
    assert pages == [1] * (steps - 1)


@pytest.mark.harness_live
@pytest.mark.parametrize("condenser", [True, False])
async def test_it_stops_at_its_turn_limit_and_when_it_is_told_to(condenser: bool) -> None:
    replies = [call(SHELL, MEND), *(call(SHELL, f"echo {number}") for number in range(9))]
    finished = await live_trial("openhands", played(*replies), {"condenser": condenser}, turns=3)
    assert str(finished.record.outcome) == "turn_limit", finished.record.error
    assert (finished.record.calls, finished.record.reward) == (3, 1.0)
    check_exactly_once(finished)


def test_the_reply_of_a_slow_policy_is_waited_for() -> None:
    assert settings(OpenHands(), replace(CONTEXT, seconds=7200.5))["llm"]["timeout"] == 7200

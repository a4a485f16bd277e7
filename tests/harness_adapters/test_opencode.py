"""OpenCode: what it is told, how its ending is read, and the released package in the real sandbox."""

from __future__ import annotations

import json
import shlex
from typing import Any

import pytest
from npm_helpers import check_live, context, failures, recorded_ending

from harness_adapters.adapter import HarnessError
from harness_adapters.opencode import OpenCode


@pytest.mark.parametrize(
    ("case", "ending"),
    [
        ("work", "finished"),
        ("cut_reply", "finished"),
        ("context_overflow", "context_overflow"),
        ("told_to_stop", "failed"),
        ("refused", "failed"),
    ],
)
def test_recorded_endings_are_read(case: str, ending: str) -> None:
    assert recorded_ending(OpenCode(), case) == ending


@pytest.mark.parametrize(("code", "output"), [(1, ""), (None, '{"type":"text"}\n'), (0, '{"type":"error"}\n')])
def test_a_crash_or_an_error_is_a_failure(code: int | None, output: str) -> None:
    assert OpenCode().ending(code, output) == "failed"


def config_of(**options: Any) -> dict[str, Any]:
    files = OpenCode(**options).files(context())
    assert files["/home/agent/.harness/task.txt"] == b"Mend `it`.\n'Now'."
    config: dict[str, Any] = json.loads(files["/home/agent/.harness/opencode.json"])
    return config


@pytest.mark.parametrize(
    ("dialect", "package"),
    [("chat", "@ai-sdk/openai-compatible"), ("messages", "@ai-sdk/anthropic"), ("responses", "@ai-sdk/openai")],
)
def test_each_dialect_is_a_package(dialect: Any, package: str) -> None:
    provider = config_of(dialect=dialect, context_tokens=9000, output_tokens=500)["provider"]["lego"]
    assert provider["npm"] == package
    assert provider["options"] == {"baseURL": "http://127.0.0.1:4747/v1", "apiKey": "key-7", "timeout": False}
    assert provider["models"]["policy"]["limit"] == {"context": 9000, "output": 500}


def test_what_would_call_the_model_besides_is_off() -> None:
    config = config_of()
    assert config["model"] == config["small_model"] == "lego/policy"
    assert config["compaction"] == {"auto": False, "prune": False}
    assert config["agent"] == {"title": {"disable": True}, "summary": {"disable": True}}
    assert config_of(compact=True)["compaction"]["auto"] is True
    assert config_of(prompt="Be brief.", tools="bash,edit")["agent"]["build"] == {
        "prompt": "Be brief.",
        "tools": {"*": False, "bash": True, "edit": True},
    }


def test_an_unknown_dialect_is_one_line() -> None:
    with pytest.raises(
        HarnessError, match=r"^harness.options.dialect=grpc: opencode speaks chat, messages, responses$"
    ):
        OpenCode(dialect="grpc")  # type: ignore[arg-type]


def test_the_command_and_where_it_keeps_things() -> None:
    shell, flag, line = OpenCode().command(context())
    assert (shell, flag) == ("sh", "-c")
    words = shlex.split(line)
    assert words[:3] == ["exec", "/opt/lego/harness/node/node_modules/.bin/opencode", "run"]
    assert words[-1] == "</home/agent/.harness/task.txt"
    environment = OpenCode().environment(context())
    assert environment["OPENCODE_CONFIG"] == "/home/agent/.harness/opencode.json"
    kept = [value for name, value in environment.items() if name.startswith("XDG_")]
    assert kept
    assert all(value.startswith("/home/agent/.harness/") for value in kept)


@pytest.mark.harness_live
@pytest.mark.parametrize("dialect", ["messages", "responses"])
async def test_it_works_in_its_other_dialects(dialect: str) -> None:
    report, _ = await check_live("opencode", "work", "history", "told_to_stop", options={"dialect": dialect}, slots=1)
    assert failures(report) == []
    assert report["wire"]["dialects"] == [dialect]


@pytest.mark.harness_live
async def test_every_scenario() -> None:
    report, changed = await check_live("opencode", slots=1)
    assert failures(report) == []
    assert changed == []

"""Claude Code: what it is told, how its ending is read, and the released package in the real sandbox.

Of the harnesses that npm installs this is the one that every run of the tests plays live: it is there soonest (one
program, no node beside it), and an episode takes it two seconds of processor time.
"""

from __future__ import annotations

import shlex
from typing import Any

import pytest
from npm_helpers import check_live, context, failures, recorded_ending

from harness_adapters.adapter import HarnessError
from harness_adapters.claude_code import ClaudeCode
from harness_adapters.registry import load_adapter


@pytest.mark.parametrize(
    ("case", "ending"),
    [
        ("work", "finished"),
        ("turn_limit", "turn_limit"),
        ("always_too_long", "context_overflow"),
        ("told_to_stop", "failed"),
        ("refused", "failed"),
    ],
)
def test_recorded_endings_are_read(case: str, ending: str) -> None:
    assert recorded_ending(ClaudeCode(), case) == ending


@pytest.mark.parametrize("output", ["", '{"type":"system"}\n', '{"type":"result","subtype":"succ', "a crash\n"])
def test_an_output_without_a_result_is_a_failure(output: str) -> None:
    assert ClaudeCode().ending(1, output) == "failed"


@pytest.mark.parametrize(
    ("options", "flags"),
    [
        ({}, []),
        ({"bare": True}, ["--bare"]),
        ({"tools": "Bash,Edit"}, ["--tools", "Bash,Edit"]),
        ({"bare": True, "tools": "Bash"}, ["--bare", "--tools", "Bash"]),
    ],
)
def test_the_command(options: dict[str, Any], flags: list[str]) -> None:
    shell, flag, line = ClaudeCode(**options).command(context())
    assert (shell, flag) == ("sh", "-c")
    words = shlex.split(line)
    assert words[:3] == ["exec", "/opt/lego/harness/node/node_modules/.bin/claude", "-p"]
    assert words[3:-1] == [
        *("--dangerously-skip-permissions", "--max-turns", "9", "--output-format", "stream-json", "--verbose"),
        *flags,
    ]
    assert words[-1] == "</home/agent/.harness/task.txt"
    assert ClaudeCode().files(context()) == {"/home/agent/.harness/task.txt": b"Mend `it`.\n'Now'."}


def test_it_calls_nobody_but_its_model() -> None:
    environment = ClaudeCode(context_tokens=50_000, output_tokens=1000).environment(context())
    assert environment["ANTHROPIC_BASE_URL"] == "http://127.0.0.1:4747"
    assert environment["ANTHROPIC_AUTH_TOKEN"] == "key-7"
    assert {environment[name] for name in environment if name.endswith("_MODEL")} == {"policy"}
    assert (environment["CLAUDE_CODE_MAX_CONTEXT_TOKENS"], environment["CLAUDE_CODE_MAX_OUTPUT_TOKENS"]) == (
        "50000",
        "1000",
    )
    for name in ("DISABLE_TELEMETRY", "DISABLE_AUTOUPDATER", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC"):
        assert environment[name] == "1"


def test_the_version_is_part_of_the_runtime() -> None:
    assert ClaudeCode().runtime != ClaudeCode(version="2.0.0").runtime
    assert ClaudeCode(version="2.0.0").runtime.npm == ("@anthropic-ai/claude-code@2.0.0",)
    with pytest.raises(HarnessError, match="unexpected keyword argument 'tool'"):
        load_adapter("claude_code", {"tool": "Bash"})


async def test_it_behaves_as_it_did_when_it_was_checked() -> None:
    report, changed = await check_live("claude_code", "work", "history", "text_only", "turn_limit", "told_to_stop")
    assert failures(report) == []
    assert changed == []


@pytest.mark.harness_live
async def test_every_scenario() -> None:
    report, changed = await check_live("claude_code")
    assert failures(report) == []
    assert changed == []

"""Sub-agents that run in parallel: every conversation its own segments, none mixed, all calls accounted for."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from live_trial import check_exactly_once, live_trial, texts_by_segment

from harness_adapters.adapter import ShellTool
from harness_adapters.claude_code import ClaudeCode
from harness_adapters.codex import Codex
from harness_adapters.opencode import OpenCode
from lego_verl.capture.message import Message
from lego_verl.harness_check.scenario import MEND, call
from lego_verl.policies.scripted import Reply

NAMES = ("alpha", "beta")
_ASKED = re.compile(r"Look into part (alpha|beta)\.")
Spawn = Callable[[str], Mapping[str, Any]]


def order(name: str) -> str:
    return f"Look into part {name}. Run two commands and report what you saw."


def claude(name: str) -> Mapping[str, Any]:
    arguments = {"description": f"look into {name}", "prompt": order(name), "run_in_background": False}
    return {"name": "Agent", "arguments": arguments}


def codex(name: str) -> Mapping[str, Any]:
    return {"name": "multi_agent_v1__spawn_agent", "arguments": {"message": order(name)}}


def opencode(name: str) -> Mapping[str, Any]:
    arguments = {"description": f"look into {name}", "prompt": order(name), "subagent_type": "general"}
    return {"name": "task", "arguments": arguments}


def wait_for(messages: Sequence[Message]) -> Reply | None:
    """Codex does not wait by itself: its agents' ids stand in the results of their calls."""
    ids = [
        found for each in messages for found in re.findall(r'"agent_id": ?"([^"]+)"', each.text) if each.role == "tool"
    ]
    if not ids:
        return None
    return {"tool_calls": [{"name": "multi_agent_v1__wait_agent", "arguments": {"targets": ids}}]}


def speaker(shell: ShellTool, spawn: Spawn) -> Callable[[Sequence[Message]], Reply]:
    """The main agent starts both sub-agents in one turn; each of them runs two commands, and reports."""

    def speak(messages: Sequence[Message]) -> Reply:
        asked = [(place, found[1]) for place, each in enumerate(messages) if each.role == "user"
                 and (found := _ASKED.search(each.text))]  # fmt: skip
        if asked and not any(spawned(each) for each in messages):
            place, name = asked[-1]
            turns = sum(each.role == "assistant" for each in messages[place:])
            if turns < 2:
                return call(shell, f"sleep 0.2; echo {name} {turns}")
            return {"text": f"Part {name} is as it should be."}
        turns = sum(each.role == "assistant" for each in messages)
        if turns == 0:
            return call(shell, MEND)
        if turns == 1:
            return {"tool_calls": [dict(spawn(name)) for name in NAMES]}
        reported = " ".join(each.text for each in messages if each.role in ("tool", "user"))
        missing = [name for name in NAMES if f"Part {name} is as it should be." not in reported]
        waiting = wait_for(messages) if missing and turns < 12 else None
        return waiting or {"text": "Done."}

    def spawned(message: Message) -> bool:
        return any(each.name == spawn("alpha")["name"] for each in message.tool_calls)

    return speak


@pytest.mark.harness_live
@pytest.mark.parametrize(
    ("name", "options", "shell", "spawn"),
    [
        ("claude_code", {}, ClaudeCode.shell, claude),
        ("codex", {"subagents": True}, Codex.shell, codex),
        ("opencode", {}, OpenCode.shell, opencode),
    ],
)
async def test_every_conversation_has_its_own_segment(
    name: str, options: Mapping[str, Any], shell: ShellTool, spawn: Spawn
) -> None:
    finished = await live_trial(name, speaker(shell, spawn), options)
    assert str(finished.record.outcome) == "solved", finished.record.error
    check_exactly_once(finished)
    found = texts_by_segment(finished)
    assert sorted(reason for reason, _ in found) == ["first", "subagent", "subagent"]
    by_name = {
        name: [text for reason, text in found if reason == "subagent" and f"echo {name}" in text] for name in NAMES
    }
    assert [len(texts) for texts in by_name.values()] == [1, 1]
    for each, other in (NAMES, NAMES[::-1]):
        (text,) = by_name[each]
        assert text.count(f"echo {each}") == 2
        assert f"Part {each} is as it should be." in text
        assert other not in text
    (main,) = (text for reason, text in found if reason == "first")
    assert "Done." in main
    assert "sleep" not in main

"""Harnesses that sum up their history when it grows too long: segments, reasons, and every token trained once."""

from __future__ import annotations

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

_SUMMARY = "<analysis>\nI looked back.\n</analysis>\n\n<summary>\nWhat was broken is mended.\n</summary>"
_PAGES = 14
_BYTES = 6000


def reader(shell: ShellTool, asks_to_sum_up: Callable[[Sequence[Message]], bool]) -> Callable[..., Reply]:
    """Mends, then reads page after page, far beyond the context; sums up when it is asked to."""
    turn = 0

    def speak(messages: Sequence[Message]) -> Reply:
        nonlocal turn
        if asks_to_sum_up(messages):
            return {"text": _SUMMARY}
        turn += 1
        if turn == 1:
            return call(shell, MEND)
        if turn <= _PAGES:
            return call(shell, f"echo page {turn}; yes 'a line of output' | head -c {_BYTES}")
        return {"text": "Done."}

    return speak


def claude_asks(messages: Sequence[Message]) -> bool:
    return messages[-1].role == "user" and "<summary> block" in messages[-1].text


def codex_asks(messages: Sequence[Message]) -> bool:
    return messages[-1].role == "user" and "handoff summary" in messages[-1].text


def opencode_asks(messages: Sequence[Message]) -> bool:
    return messages[-1].role == "user" and "summary" in messages[-1].text.lower()


@pytest.mark.harness_live
@pytest.mark.parametrize(
    ("name", "options", "shell", "asks"),
    [
        (
            "claude_code",
            {"bare": True, "tools": "Bash", "context_tokens": 64_000, "output_tokens": 4096},
            ClaudeCode.shell,
            claude_asks,
        ),
        ("codex", {"context_tokens": 64_000}, Codex.shell, codex_asks),
        (
            "opencode",
            {"tools": "bash", "compact": True, "context_tokens": 64_000, "output_tokens": 4096},
            OpenCode.shell,
            opencode_asks,
        ),
    ],
)
async def test_a_history_that_was_summed_up_is_trained_once(
    name: str, options: Mapping[str, Any], shell: ShellTool, asks: Callable[[Sequence[Message]], bool]
) -> None:
    finished = await live_trial(name, reader(shell, asks), options)
    assert str(finished.record.outcome) == "solved", finished.record.error
    check_exactly_once(finished)
    found = texts_by_segment(finished)
    reasons = [reason for reason, _ in found]
    rounds = (len(reasons) - 1) // 2
    assert rounds >= 1
    assert reasons == ["first", *["side_call", "compacted"] * rounds]
    for reason, text in found:
        assert ("What was broken is mended" in text) == (reason == "side_call")
    assert set(finished.record.proof["untrained"]) == {"side_call"}
    # Every page was read in exactly one segment, and in order.
    pages = [text.count(f"echo page {page};") for page in range(2, _PAGES + 1) for _, text in found]
    assert sum(pages) == _PAGES - 1
    assert max(len(segment.ids) for segment in finished.segments) < 64_000 + _BYTES

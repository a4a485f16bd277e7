"""Whether a harness's message is one we know: by meaning, not by bytes.

The ids of tool calls anchor a turn, since every harness sends them back as they were. Arguments compare as
parsed JSON and may gain defaults; text compares without the white space around it; reasoning may be left
out. What a message's protocol does to it (lists or strings, ``cache_control``, empty content) is gone
before it comes here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import orjson

from lego_verl.capture.message import Message, ToolCall

ReasoningPolicy = Literal["keep", "strip"]
"""``keep``: reasoning that a harness leaves out does not count, and the policy goes on seeing what it sampled.
``strip``: it counts, and the next call begins a segment without it."""

Difference = Literal["edited", "reasoning_stripped"]


def difference(ours: Message, theirs: Message, reasoning: ReasoningPolicy = "keep") -> Difference | None:
    """What tells a known message from one in a request, or None when they mean the same."""
    if ours == theirs:
        return None
    if (
        ours.role != theirs.role
        or ours.tool_call_id != theirs.tool_call_id
        or not _same_text(ours.text, theirs.text)
        or not _same_calls(ours.tool_calls, theirs.tool_calls)
    ):
        return "edited"
    if _same_text(ours.reasoning, theirs.reasoning):
        return None
    if theirs.reasoning:
        return "edited"
    return "reasoning_stripped" if reasoning == "strip" else None


def common_prefix(
    ours: Sequence[Message], theirs: Sequence[Message], reasoning: ReasoningPolicy = "keep"
) -> tuple[int, Difference | None]:
    """How many first messages mean the same, and what the next one differs by (None where one list ends)."""
    for count, (known, sent) in enumerate(zip(ours, theirs, strict=False)):
        found = difference(known, sent, reasoning)
        if found is not None:
            return count, found
    return min(len(ours), len(theirs)), None


def _same_text(ours: str, theirs: str) -> bool:
    return ours == theirs or ours.strip() == theirs.strip()


def _same_calls(ours: tuple[ToolCall, ...], theirs: tuple[ToolCall, ...]) -> bool:
    if ours == theirs:
        return True
    if len(ours) != len(theirs):
        return False
    by_id = {call.id: call for call in theirs}
    for call in ours:
        sent = by_id.get(call.id)
        if sent is None or sent.name != call.name or not same_arguments(call.arguments, sent.arguments):
            return False
    return True


def same_arguments(ours: str, theirs: str) -> bool:
    """Whether two argument strings mean the same; ``theirs`` may have gained keys that ``ours`` left out."""
    if ours == theirs:
        return True
    try:
        known, sent = orjson.loads(ours), orjson.loads(theirs)
    except orjson.JSONDecodeError:
        return ours.strip() == theirs.strip()
    if isinstance(known, dict) and isinstance(sent, dict):
        return all(key in sent and _same_value(value, sent[key]) for key, value in known.items())
    return _same_value(known, sent)


def _same_value(ours: Any, theirs: Any) -> bool:
    """Equal as JSON: to Python, true is 1 as well."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        return ours.keys() == theirs.keys() and all(_same_value(value, theirs[key]) for key, value in ours.items())
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(_same_value, ours, theirs))
    return isinstance(ours, bool) == isinstance(theirs, bool) and bool(ours == theirs)

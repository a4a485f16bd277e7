"""Why a new segment had to begin: an enumerated set, and the one place that decides."""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

from lego_verl.capture.match import ReasoningPolicy, common_prefix, difference
from lego_verl.capture.message import Message, Request, Tool


class Split(StrEnum):
    FIRST = "first"
    """The trial's first call."""
    COMPACTED = "compacted"
    """Several turns were replaced by something shorter."""
    EDITED_TURN = "edited_turn"
    """A message stands where it stood, and says something else."""
    DROPPED_TURN = "dropped_turn"
    """A sampled turn is gone from the history."""
    TOOLS_CHANGED = "tools_changed"
    SYSTEM_CHANGED = "system_changed"
    REASONING_STRIPPED = "reasoning_stripped"
    """Reasoning was left out of an earlier turn, and the recipe says that this counts."""
    SUBAGENT = "subagent"
    SIDE_CALL = "side_call"
    """Something beside the task: a title, a summary."""
    UNKNOWN = "unknown"


def why_split(
    request: Request,
    messages: Sequence[Message],
    known: Sequence[tuple[Sequence[Message], Sequence[Tool]]],
    reasoning: ReasoningPolicy = "keep",
) -> Split:
    """Why ``messages`` extend none of the ``known`` segments (each: its messages, its tools)."""
    if request.origin == "subagent":
        return Split.SUBAGENT
    if request.origin == "side_call":
        return Split.SIDE_CALL
    if not known:
        return Split.FIRST
    ranked = [(*common_prefix(ours, messages, reasoning), ours, tools) for ours, tools in known]
    # The latest of the segments that share most is the one that the harness went on from.
    count, found, ours, tools = max(reversed(ranked), key=lambda candidate: candidate[0])
    if count == len(ours) and list(tools) != list(request.tools):
        return Split.TOOLS_CHANGED
    if found == "reasoning_stripped":
        return Split.REASONING_STRIPPED
    if count == 0:
        return _without_common_start(ours, messages, reasoning)
    return _after_common_start(ours[count:], messages[count:])


def _without_common_start(ours: Sequence[Message], theirs: Sequence[Message], reasoning: ReasoningPolicy) -> Split:
    ours_rest = ours[1:] if ours[0].role == "system" else ours
    theirs_rest = theirs[1:] if theirs[0].role == "system" else theirs
    system_differs = len(ours_rest) != len(ours) or len(theirs_rest) != len(theirs)
    if system_differs and ours_rest and common_prefix(ours_rest, theirs_rest, reasoning)[0]:
        return Split.SYSTEM_CHANGED
    turns, missing = _turns_and_missing(ours, theirs)
    return Split.COMPACTED if 0 < missing < turns else Split.UNKNOWN


def _turns_and_missing(ours: Sequence[Message], theirs: Sequence[Message]) -> tuple[int, int]:
    """How many sampled turns ``ours`` holds, and how many of them are not in ``theirs``, not even changed."""
    turns = [message for message in ours if message.role == "assistant"]
    anchors = {call.id for message in theirs for call in message.tool_calls}
    sent = [message for message in theirs if message.role == "assistant"]
    missing = sum(
        not (
            any(call.id in anchors for call in turn.tool_calls)
            or any(difference(turn, other, "keep") is None for other in sent)
        )
        for turn in turns
    )
    return len(turns), missing


def _after_common_start(ours: Sequence[Message], theirs: Sequence[Message]) -> Split:
    """``ours`` and ``theirs`` differ from their first message on; what came before is the same."""
    turns, missing = _turns_and_missing(ours, theirs)
    sent = sum(message.role == "assistant" for message in theirs)
    same_place = bool(ours) and bool(theirs) and ours[0].role == theirs[0].role
    if not missing:
        return Split.EDITED_TURN if same_place else Split.UNKNOWN
    if same_place and sent >= turns:
        return Split.EDITED_TURN
    if missing > 1 and len(theirs) < len(ours):
        return Split.COMPACTED
    return Split.DROPPED_TURN

"""A recording as conversations: of each segment, the messages that the policy saw and what it answered."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from lego_verl.capture.message import Message, Tool
from lego_verl.capture.record import Recording


@dataclass
class Said:
    """One message of a segment."""

    message: Message
    call: int | None = None
    """The call that sampled it; None for context, also where the context holds an earlier reply."""


@dataclass
class Conversation:
    """One segment."""

    segment: int
    reason: str
    said: list[Said] = field(default_factory=list)
    tools: Sequence[Tool] = ()


def conversations(recording: Recording) -> list[Conversation]:
    """Every segment of a trial, in order of its first call."""
    found: dict[int, Conversation] = {}
    for call, asked, reply in zip(recording.calls, recording.asked, recording.replies, strict=True):
        reason = str(recording.splits[call.segment])
        each = found.setdefault(call.segment, Conversation(call.segment, reason))
        if asked.tools is not None:
            each.tools = asked.tools
        del each.said[asked.kept :]
        each.said += [Said(message) for message in asked.messages]
        each.said.append(Said(reply, call.index))
    return list(found.values())

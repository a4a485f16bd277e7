"""A recorded trial in the policy's place: its replies, sampled id for id, with the recorded log-probabilities.

A harness that asks what it asked then gets what it got then. Where it asks something else it still gets the reply
that is due, and the difference is reported: the log-probabilities are those of the recorded prompt.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from lego_verl.capture.call import Sample, digest
from lego_verl.capture.match import difference
from lego_verl.capture.message import Message, Request, Tool, in_call_order
from lego_verl.capture.record import Recording, RecordingError
from lego_verl.policies.policy import PolicyError, Sampling

_SHOWN = 60
"""Characters of a text that a difference shows."""


@dataclass(frozen=True)
class RequestDifference:
    """One way in which a request is not the recorded one."""

    call: int
    """The recorded call whose reply was given."""
    message: int | None
    """The message of the request, from 0; None where it is about no message."""
    how: str

    def __str__(self) -> str:
        where = f"call {self.call}" if self.message is None else f"call {self.call}, message {self.message}"
        return f"{where}: {self.how}"


def recorded_requests(recording: Recording) -> list[Request]:
    """What was asked in every call, whole. A message that a segment held is in the words of the segment.

    Raises:
        RecordingError: when a call is missing, or goes on from more than its segment held.
    """
    held: dict[int, tuple[Message, ...]] = {}
    tools: dict[int, Sequence[Tool]] = {}
    requests = []
    for number, (call, asked, reply) in enumerate(
        zip(recording.calls, recording.asked, recording.replies, strict=True)
    ):
        if call.index != number:
            raise RecordingError(f"call {call.index} is recorded in the place of call {number}")
        known = held.get(call.segment, ())
        if asked.kept > len(known) or (asked.tools is None and call.segment not in tools):
            raise RecordingError(
                f"call {call.index} goes on from {asked.kept} messages of segment {call.segment}, "
                f"which holds {len(known)}"
            )
        if asked.tools is not None:
            tools[call.segment] = asked.tools
        messages = (*known[: asked.kept], *asked.messages)
        requests.append(Request(messages, tools[call.segment], asked.origin))
        held[call.segment] = (*messages, reply)
    return requests


class ReplayPolicy:
    """Answers with the replies of a recording, counted for each session.

    A request is answered by the first reply that is left and whose recorded request means the same; where there is
    none, by the first that is left. Expert routes are not replayed.

    Args:
        told: gets every difference as it is found, with its session.

    Raises:
        RecordingError: when the recording is not whole.
    """

    def __init__(
        self,
        recording: Recording,
        *,
        model: str = "replay",
        told: Callable[[str, RequestDifference], None] | None = None,
    ) -> None:
        self.model = model
        self.differences: dict[str, list[RequestDifference]] = defaultdict(list)
        """By session, in the order in which they were found."""
        self._calls = recording.calls
        self._requests = [replace(r, messages=_neutral(r.messages)) for r in recorded_requests(recording)]
        self._left: dict[str, list[int]] = {}
        self._told = told

    def left(self, session: str) -> int:
        """Replies that a session has not been given."""
        return len(self._left.get(session, self._calls))

    async def answer(
        self, request: Request, *, session: str, prompt_ids: Sequence[int], max_tokens: int, sampling: Sampling
    ) -> Sample:
        """Give the reply that is due.

        Raises:
            PolicyError: when all have been given.
        """
        left = self._left.setdefault(session, list(range(len(self._calls))))
        if not left:
            raise PolicyError(f"session {session}: the recording is used up after {len(self._calls)} calls")
        given = replace(request, messages=_neutral(in_call_order(request.messages)))
        number, found = left[0], self._compared(left[0], given)
        for other in left[1:] if found else ():
            if not self._compared(other, given):
                number, found = other, []
                break
        left.remove(number)
        call, sample = self._calls[number], self._calls[number].sample
        if not found and digest(np.asarray(prompt_ids, dtype=np.int32)) != call.prompt_digest:
            found = [RequestDifference(number, None, "it means the same, and its prompt has other ids")]
        if len(sample.ids) > max_tokens:
            how = f"room for {max_tokens} of the {len(sample.ids)} tokens that were sampled"
            found.append(RequestDifference(number, None, how))
            sample = _cut(sample, max_tokens)
        for each in found:
            self.differences[session].append(each)
            if self._told is not None:
                self._told(session, each)
        return sample

    def _compared(self, number: int, given: Request) -> list[RequestDifference]:
        return differences(number, self._requests[number], given)


def differences(call: int, recorded: Request, given: Request) -> list[RequestDifference]:
    """How a request differs in meaning from the recorded one; empty when it does not. Of messages that say something
    else the first is named."""
    found = []
    pairs = list(zip(recorded.messages, given.messages, strict=False))
    places = [place for place, (ours, theirs) in enumerate(pairs) if difference(ours, theirs) is not None]
    if places:
        more = f" (and {len(places) - 1} more messages differ)" if len(places) > 1 else ""
        found.append(RequestDifference(call, places[0], _how(*pairs[places[0]]) + more))
    ours_count, theirs_count = len(recorded.messages), len(given.messages)
    if ours_count != theirs_count:
        how = f"{theirs_count} messages where {ours_count} were recorded"
        found.append(RequestDifference(call, min(ours_count, theirs_count), how))
    if list(recorded.tools) != list(given.tools):
        found.append(RequestDifference(call, None, _how_tools(recorded.tools, given.tools)))
    if recorded.origin != given.origin:
        found.append(RequestDifference(call, None, f"asked by {given.origin}, recorded of {recorded.origin}"))
    return found


def _how(ours: Message, theirs: Message) -> str:
    if ours.role != theirs.role:
        return f"role {theirs.role} where {ours.role} was recorded"
    for name in ("text", "reasoning"):
        known, sent = getattr(ours, name), getattr(theirs, name)
        if known.strip() != sent.strip() and (name == "text" or sent):
            place = next((i for i, (a, b) in enumerate(zip(known, sent, strict=False)) if a != b), 0)
            return f"{theirs.role} {name} is {_short(sent, place)}, recorded {_short(known, place)}"
    known_calls = [(call.name, call.arguments) for call in ours.tool_calls]
    sent_calls = [(call.name, call.arguments) for call in theirs.tool_calls]
    if known_calls != sent_calls:
        return f"tool calls {_short(str(sent_calls), 0)}, recorded {_short(str(known_calls), 0)}"
    return "it belongs to another tool call than the recorded one"


def _how_tools(ours: Sequence[Tool], theirs: Sequence[Tool]) -> str:
    known, sent = _by_name(ours), _by_name(theirs)
    parts = [
        (f"without {', '.join(sorted(known.keys() - sent.keys()))}", known.keys() - sent.keys()),
        (f"with {', '.join(sorted(sent.keys() - known.keys()))}", sent.keys() - known.keys()),
        ("declared otherwise", {name for name in known.keys() & sent.keys() if known[name] != sent[name]}),
    ]
    return "tools differ: " + (", ".join(text for text, names in parts if names) or "in their order")


def _by_name(tools: Sequence[Tool]) -> Mapping[str, Tool]:
    return {str((tool.get("function") or tool).get("name", "")): tool for tool in tools}


def _short(text: str, place: int) -> str:
    """The text around the place where it begins to differ."""
    start = max(place - _SHOWN // 3, 0)
    piece = text[start : start + _SHOWN]
    return ("…" if start else "") + repr(piece)[1:-1] + ("…" if start + _SHOWN < len(text) else "")


def _neutral(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Messages with their tool-call ids numbered: every session mints its own."""
    number: dict[str, str] = {}

    def named(call_id: str) -> str:
        return number.setdefault(call_id, f"call_{len(number)}")

    neutral = []
    for message in messages:
        calls = tuple(call._replace(id=named(call.id)) for call in message.tool_calls)
        answers = named(message.tool_call_id) if message.tool_call_id else ""
        neutral.append(message._replace(tool_calls=calls, tool_call_id=answers))
    return tuple(neutral)


def _cut(sample: Sample, count: int) -> Sample:
    return Sample(sample.ids[:count], sample.logprobs[:count], sample.versions[:count], "length")

"""A recording in the place of renderer and parser, where those that made it are not known.

It renders nothing: it gives the ids that were recorded, so that everything but the rendering can be derived again.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence

from lego_verl.capture.call import digest
from lego_verl.capture.message import Message, Tool
from lego_verl.capture.parser import Parsed, ParsedCall
from lego_verl.capture.record import Recording


class RecordedRenderer:
    """A ``Renderer`` for one recording; ``call`` says which call is being derived."""

    def __init__(self, recording: Recording) -> None:
        self.call = 0
        self.eos_ids: frozenset[int] = frozenset(recording.made_with.get("eos_ids", ()))
        self.close_id = -1
        self.reasoning_open = bool(recording.made_with.get("reasoning_open", False))
        self._recording = recording
        self._segments = {segment.index: segment.ids.tolist() for segment in recording.segments}

    def knows(self, call: int) -> bool:
        """Whether the ids of a call's prompt are recorded: they are of the segments that are trained."""
        return self._recording.calls[call].segment in self._segments

    def initial(self, messages: Sequence[Message], tools: Sequence[Tool]) -> list[int]:
        call = self._recording.calls[self.call]
        if not self.knows(self.call):
            return [0] * call.prompt_length
        return self._segments[call.segment][: call.prompt_length]

    def addition(self, turn: Message, new: Sequence[Message], tools: Sequence[Tool], *, last_id: int) -> list[int]:
        return self.initial(new, tools)[self._end_of(turn) :]

    def _end_of(self, turn: Message) -> int:
        """Where the turn ends that the call's prompt goes on from: of equal turns the latest that the prompt holds."""
        prompt = self.initial((), ())
        for other in reversed(self._recording.calls[: self.call]):
            end = other.prompt_length + len(other.sample.ids)
            if self._recording.replies[other.index] != turn or end > len(prompt):
                continue
            if not self.knows(self.call) or (
                digest(array("i", prompt[: other.prompt_length])) == other.prompt_digest
                and prompt[other.prompt_length : end] == other.sample.ids.tolist()
            ):
                return end
        return len(prompt)

    def encode(self, text: str) -> list[int]:
        raise NotImplementedError("a recording encodes no text")

    def decode(self, ids: Sequence[int]) -> str:
        """The recorded text of the call's sample, or of a part of it: all but its last token, or that one alone."""
        call = self._recording.calls[self.call]
        sampled = call.sample.ids.tolist()
        if list(ids) == sampled:
            return call.text
        if list(ids) == sampled[:-1]:
            return call.text.removesuffix(self._recording.pieces.get(sampled[-1], ""))
        return "".join(self._recording.pieces.get(token, "") for token in ids)


class RecordedParser:
    """A ``ToolParser`` that says what was read then; it must be told the ``call``."""

    name = "recorded"

    def __init__(self, recording: Recording) -> None:
        self.call = 0
        self._replies = recording.replies

    def parse(self, text: str, *, reasoning_open: bool = False, tools: Sequence[Tool] = ()) -> Parsed:
        reply = self._replies[self.call]
        calls = tuple(ParsedCall(call.name, call.arguments) for call in reply.tool_calls)
        return Parsed(reply.text, reply.reasoning, calls)

    def write(self, text: str, reasoning: str, calls: Sequence[ParsedCall], *, reasoning_open: bool = False) -> str:
        raise NotImplementedError("a recording writes no text")

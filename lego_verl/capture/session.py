"""The token truth of one trial: requests in, prompts out; samples in, calls and replies out.

``prepare`` decides which segment a request extends, or that a new one begins; ``commit`` appends what was
sampled. Between the two nothing changes, so a call that fails leaves the segments as they were, and calls
may overlap.
"""

from __future__ import annotations

import uuid
from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from lego_verl.capture.call import Call, Sample, digest
from lego_verl.capture.match import ReasoningPolicy, common_prefix
from lego_verl.capture.message import Message, Request, Tool, ToolCall, in_call_order
from lego_verl.capture.parser import ToolParser
from lego_verl.capture.proof import Lost, Proof, prove
from lego_verl.capture.render import Renderer
from lego_verl.capture.segment import Segment, TrainingSegment, check_routes
from lego_verl.capture.split import Split, why_split


def chat_call_id() -> str:
    """An id of a tool call in the form of OpenAI's chat completions."""
    return f"call_{uuid.uuid4().hex[:24]}"


@dataclass(frozen=True)
class Prepared:
    """A request whose prompt is known. ``prompt_ids`` are the ids to hand to the engine, unchanged."""

    request: Request
    messages: tuple[Message, ...]
    prompt_ids: array[int]
    prompt_digest: bytes
    base: Segment | None
    """The segment that is extended, or None where a new one begins."""
    base_length: int
    reason: Split
    """Why a new segment would begin."""
    calls_before: int


@dataclass(frozen=True)
class Committed:
    call: Call
    message: Message
    """The reply as the harness is to see it."""
    malformed: int
    stopped: bool
    """Whether one of the request's stop strings ended the reply."""


@dataclass(frozen=True)
class Asked:
    """What was asked in a call: only the messages that its segment did not hold yet."""

    kept: int
    """Messages of the segment that stood before."""
    messages: tuple[Message, ...]
    tools: Sequence[Tool] | None
    """None where they are the segment's."""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """The harness's own parameters, recorded only."""


class SessionCapture:
    """Captures one trial.

    Args:
        renderer: messages to ids.
        parser: sampled text to replies.
        reasoning: whether reasoning that a harness leaves out of an earlier turn counts as a change.
        untrained: segments that begin for one of these reasons are context for nobody: they are not trained,
            and the proof lists their tokens by that reason.
    """

    def __init__(
        self,
        renderer: Renderer,
        parser: ToolParser,
        *,
        reasoning: ReasoningPolicy = "keep",
        untrained: frozenset[Split] = frozenset({Split.SIDE_CALL}),
    ) -> None:
        self.renderer = renderer
        self.parser = parser
        self.calls: list[Call] = []
        self.asked: list[Asked] = []
        self.replies: list[Message] = []
        self.lost: list[Lost] = []
        self._reasoning: ReasoningPolicy = reasoning
        self._untrained = untrained
        self._segments: list[Segment] = []

    def prepare(self, request: Request) -> Prepared:
        """Find what a request extends and render only what it adds.

        Raises:
            TemplateError: when the chat template refuses the messages.
        """
        messages = in_call_order(request.messages)
        base = self._extended(request, messages)
        if base is None:
            prompt = array("i", self.renderer.initial(messages, request.tools))
            reason = self._why(request, messages)
        else:
            new = messages[len(base.messages) :]
            added = self.renderer.addition(base.messages[-1], new, request.tools, last_id=base.ids[-1])
            prompt = base.ids + array("i", added)
            reason = Split.UNKNOWN
        return Prepared(
            request=request,
            messages=messages,
            prompt_ids=prompt,
            prompt_digest=digest(prompt),
            base=base,
            base_length=0 if base is None else len(base.ids),
            reason=reason,
            calls_before=len(self.calls),
        )

    def _extended(self, request: Request, messages: tuple[Message, ...]) -> Segment | None:
        """The longest segment that ``messages`` extend, the latest of equals."""
        best: Segment | None = None
        for segment in reversed(self._segments):
            known = segment.messages
            length = len(known)
            if length >= len(messages) or (best is not None and length <= len(best.messages)):
                continue
            if any(message.role == "assistant" for message in messages[length:]):
                continue
            if segment.tools != request.tools:
                continue
            if common_prefix(known, messages, self._reasoning)[0] == length:
                best = segment
        return best

    def _why(self, request: Request, messages: tuple[Message, ...]) -> Split:
        known = [(segment.messages, segment.tools) for segment in self._segments]
        return why_split(request, messages, known, self._reasoning)

    def commit(
        self,
        prepared: Prepared,
        sample: Sample,
        *,
        seconds: float,
        stop: Sequence[str] = (),
        mint: Callable[[], str] = chat_call_id,
        sampling: Mapping[str, Any] | None = None,
    ) -> Committed:
        """Append a complete sample to the segment that it extends, or begin one with it.

        Raises:
            IncompleteSample: when ids, log-probabilities, versions and routes do not fit together.
        """
        sample.check()
        base = prepared.base
        if base is not None and len(base.ids) != prepared.base_length:
            base = None  # another call went on from the same place first
        prompt_length = len(prepared.prompt_ids)
        if base is None:
            check_routes(sample, prompt_length)
        else:
            base.check_routes(sample, prompt_length)

        ids = sample.ids.tolist()
        text = self.renderer.decode(ids)
        message, malformed, stopped = self._reply(ids, text, stop, mint)
        if base is None:
            segment = self._begin(prepared)
            asked = Asked(0, prepared.messages, prepared.request.tools, dict(sampling or {}))
        else:
            segment, new = base, prepared.messages[len(base.messages) :]
            asked = Asked(len(base.messages), new, None, dict(sampling or {}))
            segment.append_context(new, prepared.prompt_ids[prepared.base_length :])
        call = Call(
            index=len(self.calls),
            segment=segment.index,
            prompt_length=prompt_length,
            # The segment keeps the routes, each row once; a call that kept its own would hold the prompt's too.
            sample=replace(sample, routes=None),
            text=text,
            seconds=seconds,
            prompt_digest=prepared.prompt_digest,
        )
        segment.append_sample(call.index, message, sample)
        self.calls.append(call)
        self.asked.append(asked)
        self.replies.append(message)
        return Committed(call, message, malformed, stopped)

    def _begin(self, prepared: Prepared) -> Segment:
        reason = prepared.reason
        if prepared.calls_before != len(self.calls):
            reason = self._why(prepared.request, prepared.messages)
        segment = Segment(len(self._segments), reason, prepared.messages, prepared.request.tools, prepared.prompt_ids)
        self._segments.append(segment)
        return segment

    def _reply(
        self, ids: list[int], text: str, stop: Sequence[str], mint: Callable[[], str]
    ) -> tuple[Message, int, bool]:
        if ids[-1] in self.renderer.eos_ids:
            text = self.renderer.decode(ids[:-1])
        found = [place for place in (text.find(string) for string in stop if string) if place >= 0]
        if found:
            text = text[: min(found)]
        parsed = self.parser.parse(text, reasoning_open=self.renderer.reasoning_open)
        calls = tuple(ToolCall(mint(), call.name, call.arguments) for call in parsed.calls)
        return Message("assistant", parsed.text, parsed.reasoning, calls), parsed.malformed, bool(found)

    def lose(self, reason: str, tokens: int = 0) -> None:
        """Record a call that did not become one: its tokens were never shown to the harness."""
        self.lost.append(Lost(reason, tokens))

    def segments(self) -> list[TrainingSegment]:
        """The segments to train, in the order in which they began."""
        return [segment.training() for segment in self._segments if segment.reason not in self._untrained]

    def splits(self) -> list[Split]:
        """Why each segment began, trained or not."""
        return [segment.reason for segment in self._segments]

    def proof(self) -> Proof:
        return prove(self.segments(), self.calls, self.splits(), self.lost)

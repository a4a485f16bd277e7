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
from lego_verl.capture.message import Message, Origin, Request, Tool, ToolCall, in_call_order
from lego_verl.capture.parser import ToolParser
from lego_verl.capture.proof import Lost, Proof, prove
from lego_verl.capture.render import Renderer
from lego_verl.capture.routes import check_routes
from lego_verl.capture.segment import Segment, TrainingSegment
from lego_verl.capture.side_calls import ends_with_side_call, is_side_call, is_subagent, was_side_call
from lego_verl.capture.split import Split, why_split

_ASIDE = (Split.SUBAGENT, Split.SIDE_CALL)


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
    """The segment that the prompt goes on from, or None where all of it was rendered."""
    base_length: int
    base_call: int
    """The call that ``base`` ended with: another one there means that something else went on from it first."""
    calls_before: int


@dataclass(frozen=True)
class Committed:
    call: Call
    message: Message
    """The reply as the harness is to see it."""
    malformed: int
    stopped: str
    """The stop string that ended the reply; empty where none did."""


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
    stop: tuple[str, ...] = ()
    """Strings that end a reply: the trainer's and the harness's."""
    origin: Origin = "main"
    after: int | None = None
    """Calls that had been committed when this one was prepared: fewer than its index where calls overlapped. None
    where it is not known."""


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
        self.reasoning: ReasoningPolicy = reasoning
        self.untrained = untrained
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
        else:
            new = messages[len(base.messages) :]
            added = self.renderer.addition(base.messages[-1], new, request.tools, last_id=base.ids[-1])
            prompt = base.ids + array("i", added)
        return Prepared(
            request=request,
            messages=messages,
            prompt_ids=prompt,
            prompt_digest=digest(prompt),
            base=base,
            base_length=0 if base is None else len(base.ids),
            base_call=-1 if base is None else base.calls[-1],
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
            if common_prefix(known, messages, self.reasoning)[0] == length:
                best = segment
        return best

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
        if base is not None and (base.calls[-1] != prepared.base_call or _leaves(prepared.request, base)):
            base = None
        prompt_length = len(prepared.prompt_ids)
        if base is None:
            check_routes(sample, prepared.prompt_ids)
        else:
            base.check_routes(sample, prepared.prompt_ids)

        ids = sample.ids.tolist()
        end = ids[-1:] if ids[-1] in self.renderer.eos_ids else []
        said = self.renderer.decode(ids[: len(ids) - len(end)])
        text = said + self.renderer.decode(end) if end else said
        message, malformed, stopped = self._reply(said, prepared.request.tools, stop, mint)
        if base is None:
            segment = self._begin(prepared)
            kept, new, tools = 0, prepared.messages, prepared.request.tools
        else:
            segment, kept, tools = base, len(base.messages), None
            new = prepared.messages[kept:]
            segment.append_context(new, prepared.prompt_ids[prepared.base_length :])
            if prepared.request.origin == "main" and segment.reason is Split.SIDE_CALL:
                segment.reason = Split.UNKNOWN  # it goes on, so it was no question aside
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
        origin, after = prepared.request.origin, prepared.calls_before
        self.asked.append(Asked(kept, new, tools, dict(sampling or {}), tuple(stop), origin, after))
        self.replies.append(message)
        return Committed(call, message, malformed, stopped)

    def _begin(self, prepared: Prepared) -> Segment:
        request, messages = prepared.request, prepared.messages
        reason = self._why(request, messages)
        if reason not in _ASIDE and self._tell_side_call(request, messages):
            reason = self._why(request, messages)
        segment = Segment(len(self._segments), reason, messages, request.tools, prepared.prompt_ids)
        self._segments.append(segment)
        return segment

    def _tell_side_call(self, request: Request, messages: Sequence[Message]) -> bool:
        """Whether the agent's latest call was beside the task: that shows only in the conversation it begins next."""
        owners = (self._segments[call.segment] for call in reversed(self.calls))
        latest = next((segment for segment in owners if segment.reason not in _ASIDE), None)
        if latest is None:
            return False
        if was_side_call(latest, messages, request.tools):
            latest.reason = Split.SIDE_CALL
            return True
        if not ends_with_side_call(latest, messages):
            return False
        aside = latest.split_last_call(len(self._segments), Split.SIDE_CALL)
        self._segments.append(aside)
        index = aside.calls[0]
        self.calls[index] = replace(self.calls[index], segment=aside.index)
        asked = tuple(aside.messages[:-1])
        self.asked[index] = replace(self.asked[index], kept=0, messages=asked, tools=aside.tools)
        return True

    def _why(self, request: Request, messages: tuple[Message, ...]) -> Split:
        known = [segment for segment in self._segments if segment.reason is not Split.SIDE_CALL]
        if request.origin == "main" and known:
            if is_side_call(messages, request.tools, known):
                return Split.SIDE_CALL
            if is_subagent(messages, known):
                return Split.SUBAGENT
        return why_split(request, messages, [(each.messages, each.tools) for each in known], self.reasoning)

    def _reply(
        self, text: str, tools: Sequence[Tool], stop: Sequence[str], mint: Callable[[], str]
    ) -> tuple[Message, int, str]:
        found = [(place, string) for string in stop if string and (place := text.find(string)) >= 0]
        # Of two that begin at one place, the shorter was complete first.
        place, stopped = min(found, default=(len(text), ""))
        text = text[:place]
        parsed = self.parser.parse(text, reasoning_open=self.renderer.reasoning_open, tools=tools)
        calls = tuple(ToolCall(mint(), call.name, call.arguments) for call in parsed.calls)
        return Message("assistant", parsed.text, parsed.reasoning, calls), parsed.malformed, stopped

    def lose(self, reason: str, tokens: int = 0) -> None:
        """Record a call that did not become one: its tokens were never shown to the harness."""
        self.lost.append(Lost(reason, tokens))

    def segments(self) -> list[TrainingSegment]:
        """The segments to train, in the order in which they began."""
        return [segment.training() for segment in self._segments if segment.reason not in self.untrained]

    def splits(self) -> list[Split]:
        """Why each segment began, trained or not."""
        return [segment.reason for segment in self._segments]

    def proof(self) -> Proof:
        return prove(self.segments(), self.calls, self.splits(), self.lost)


def _leaves(request: Request, base: Segment) -> bool:
    """Whether someone else than ``base``'s agent asks: its history is their context, and their tokens are not its."""
    return request.origin != "main" and base.reason != request.origin

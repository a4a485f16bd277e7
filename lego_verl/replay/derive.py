"""Everything that a trial's capture concluded, concluded again from what was asked and what was sampled.

Each recorded request goes through a fresh capture, and the recorded samples are committed to it. What comes out
must be what was recorded: prompts by their digest, replies, segments id for id, the proof. What this cannot see is
a recording that was changed everywhere alike; a log-probability, for one, is only held against its own copy.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

import numpy as np

from lego_verl.capture.call import IncompleteSample, Sample, digest
from lego_verl.capture.message import Message
from lego_verl.capture.parser import PARSERS, ToolParser
from lego_verl.capture.proof import Proof
from lego_verl.capture.record import Recording
from lego_verl.capture.render import Renderer
from lego_verl.capture.segment import TrainingSegment
from lego_verl.capture.session import Prepared, SessionCapture
from lego_verl.capture.split import Split
from lego_verl.capture.template import TemplateError
from lego_verl.policies.replay import recorded_requests
from lego_verl.replay.recorded import RecordedParser, RecordedRenderer

_ARRAYS = ("prompt_ids", "response_ids", "response_mask", "logprobs", "versions", "routes")


@dataclass(frozen=True)
class DerivedCall:
    """One call, and what came out differently; None for what could not be checked."""

    index: int
    segment: int
    prompt_length: int
    sampled: int
    prompt: bool | None
    """Whether the prompt has the recorded digest."""
    reply: bool
    """Whether the sampled ids have the recorded text, and read as the recorded reply."""


@dataclass
class Derivation:
    """What was derived, beside what was recorded."""

    rendered: bool
    """Whether prompts were rendered again; else their recorded ids were used."""
    parsed: bool
    """Whether replies were read again; else the recorded ones were used."""
    calls: list[DerivedCall] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    """What is not as it was recorded, a line each; empty when all is."""
    proof: Proof | None = None
    """As derived; None when it could not be."""

    @property
    def equal(self) -> bool:
        return not self.problems


def derive(recording: Recording, renderer: Renderer | None = None) -> Derivation:
    """Derive a recording again.

    Args:
        renderer: the one that it was made with; None: the recorded ids stand for what it made.

    Raises:
        RecordingError: when the recording is not whole.
    """
    parser = PARSERS.get(str(recording.made_with.get("parser")))
    deriving = _Deriving(recording, renderer, None if parser is None else parser())
    try:
        deriving.run()
    except (TemplateError, IncompleteSample) as error:
        deriving.result.problems.append(f"call {len(deriving.capture.calls)}: {error}")
    deriving.compare()
    return deriving.result


class _Deriving:
    def __init__(self, recording: Recording, renderer: Renderer | None, parser: ToolParser | None) -> None:
        self.recording = recording
        self.result = Derivation(rendered=renderer is not None, parsed=parser is not None)
        self._requests = recorded_requests(recording)
        self._renderer: Renderer = renderer or RecordedRenderer(recording)
        self._parser: ToolParser = parser or RecordedParser(recording)
        untrained = recording.made_with.get("untrained", [Split.SIDE_CALL])
        self.capture = SessionCapture(
            self._renderer,
            self._parser,
            # A recording that does not say was made before one could strip and not be seen to.
            reasoning=recording.made_with.get(
                "reasoning", "strip" if Split.REASONING_STRIPPED in recording.splits else "keep"
            ),
            untrained=frozenset(Split(reason) for reason in untrained),
        )

    def run(self) -> None:
        """Prepare and commit every call in the order in which it was done then."""
        waiting: dict[int, list[int]] = defaultdict(list)
        for index, asked in enumerate(self.recording.asked):
            waiting[index if asked.after is None else min(asked.after, index)].append(index)
        prepared: dict[int, Prepared] = {}
        for index in range(len(self.recording.calls)):
            for ready in waiting[index]:
                self._at(ready)
                prepared[ready] = self.capture.prepare(self._requests[ready])
            self._at(index)
            self._commit(index, prepared.pop(index))
        for lost in self.recording.lost:
            self.capture.lose(lost.reason, lost.tokens)

    def _at(self, call: int) -> None:
        for part in (self._renderer, self._parser):
            if isinstance(part, RecordedRenderer | RecordedParser):
                part.call = call

    def _commit(self, index: int, prepared: Prepared) -> None:
        call, asked, reply = self.recording.calls[index], self.recording.asked[index], self.recording.replies[index]
        committed = self.capture.commit(
            prepared,
            self._sample(index),
            seconds=call.seconds,
            stop=asked.stop,
            mint=_minted(reply),
            sampling=asked.sampling,
        )
        prompt: bool | None = digest(prepared.prompt_ids) == call.prompt_digest
        if isinstance(self._renderer, RecordedRenderer) and not self._renderer.knows(index):
            prompt = None
        derived = DerivedCall(
            index=index,
            segment=call.segment,
            prompt_length=call.prompt_length,
            sampled=len(call.sample.ids),
            prompt=prompt,
            reply=committed.message == reply and committed.call.text == call.text,
        )
        self.result.calls.append(derived)
        if prompt is False:
            lengths = f"{len(prepared.prompt_ids)} ids, recorded {call.prompt_length}"
            self.result.problems.append(f"call {index}: its prompt is not the one that was sent ({lengths})")
        if not derived.reply:
            what = "reads otherwise" if committed.message != reply else "has another text"
            self.result.problems.append(f"call {index}: what was sampled {what} than recorded")

    def _sample(self, index: int) -> Sample:
        """The recorded sample, with the routes of its positions, which only the segment keeps."""
        call = self.recording.calls[index]
        for segment in self.recording.segments:
            if segment.index == call.segment and segment.routes is not None:
                rows = call.prompt_length + len(call.sample.ids) - 1
                return replace(call.sample, routes=segment.routes[:rows])
        return call.sample

    def compare(self) -> None:
        """Hold segments and proof against the recorded ones."""
        result, recording = self.result, self.recording
        # Only now: what a call was shows in some cases by what comes after it.
        for ours, theirs in zip(self.capture.calls, recording.calls, strict=False):
            if ours.segment != theirs.segment:
                which = f"segment {ours.segment}, recorded {theirs.segment}"
                result.problems.append(f"call {ours.index}: it belongs to {which}")
        splits = self.capture.splits()
        if splits != recording.splits:
            result.problems.append(f"segments began {_words(splits)}, recorded {_words(recording.splits)}")
        derived = {segment.index: segment for segment in self.capture.segments()}
        recorded = {segment.index: segment for segment in recording.segments}
        if derived.keys() != recorded.keys():
            trained = f"{sorted(derived)}, recorded {sorted(recorded)}"
            result.problems.append(f"the segments that are trained are {trained}")
        for index in sorted(derived.keys() & recorded.keys()):
            result.problems.extend(_unequal(derived[index], recorded[index]))
        result.proof = self.capture.proof()
        if result.proof != (then := recording.proof()):
            result.problems.append(f"the proof is {_proof_words(result.proof)}; recorded {_proof_words(then)}")


def proof_problems(proof: Proof, recorded: Mapping[str, Any]) -> list[str]:
    """Where a derived proof is not the one that a trial's record holds."""
    derived = proof.as_dict()
    return [
        f"trial.json says {name} {recorded[name]!r}, and it is {derived[name]!r}"
        for name in derived
        if name in recorded and recorded[name] != derived[name]
    ]


def _minted(reply: Message) -> Callable[[], str]:
    ids: Iterator[str] = iter([call.id for call in reply.tool_calls])
    more = count(1)
    return lambda: next(ids, "") or f"unrecorded_{next(more)}"


def _unequal(derived: TrainingSegment, recorded: TrainingSegment) -> Iterator[str]:
    if derived.calls != recorded.calls:
        yield f"segment {derived.index}: it holds the calls {derived.calls}, recorded {recorded.calls}"
    for name in _ARRAYS:
        ours, theirs = getattr(derived, name), getattr(recorded, name)
        if ours is None or theirs is None:
            if (ours is None) != (theirs is None):
                yield f"segment {derived.index}: only one of the two has {name}"
            continue
        if ours.shape != theirs.shape:
            yield f"segment {derived.index}: {name} are {ours.shape}, recorded {theirs.shape}"
        elif not np.array_equal(ours, theirs):
            place = int(np.argwhere(ours != theirs)[0][0])
            yield (
                f"segment {derived.index}: {name} differ first at {place}: "
                f"{ours[place].tolist()}, recorded {theirs[place].tolist()}"
            )


def _words(splits: list[Split]) -> str:
    return ", ".join(str(split) for split in splits) or "none"


def _proof_words(proof: Proof) -> str:
    return f"provenance {proof.provenance:.2%}, context {proof.context:.2%} of {proof.loss_tokens} loss tokens"

"""What the store gets of a trial's calls: plain numbers and short texts, made where the trial ran."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from lego_verl.capture.call import Call
from lego_verl.capture.message import Message
from lego_verl.capture.segment import TrainingSegment
from lego_verl.capture.session import Asked
from lego_verl.monitor.behaviour.count import count, kinds
from lego_verl.monitor.behaviour.turns import Turn, turns_of
from lego_verl.monitor.store_text import one_line

if TYPE_CHECKING:
    from lego_verl.capture.record import Recording
    from lego_verl.trial.record import FinishedTrial

CALL_COLUMNS = (
    *("call", "segment", "origin", "prompt_tokens", "sampled_tokens", "finish", "seconds", "version", "mean_logprob"),
    *("characters", "thinking_characters", "tool_calls", "malformed_calls", "acts", "brief"),
)
SEGMENT_COLUMNS = (
    *("segment", "reason", "calls", "prompt_tokens", "response_tokens", "loss_tokens"),
    *("version_first", "version_last", "trained"),
)


@dataclass(frozen=True)
class TrialRows:
    """The rows of one trial, without its id. It travels between processes."""

    calls: Sequence[tuple[Any, ...]] = ()
    """By ``CALL_COLUMNS``."""
    segments: Sequence[tuple[Any, ...]] = ()
    """By ``SEGMENT_COLUMNS``."""
    behaviour: Mapping[str, Any] = field(default_factory=dict)
    """``Counts.as_dict``; empty where nothing was captured."""
    seconds: float = field(default=0.0, compare=False)
    """Processor time that it took to keep the trial: its folder and these rows."""


def rows_of_trial(finished: FinishedTrial) -> TrialRows | None:
    """The rows of a trial that just ended; None where its policy is known only by its text."""
    session = finished.session
    if session is None or session.capture is None:
        return None
    capture = session.capture
    return _rows(capture.calls, capture.asked, capture.replies, finished.segments, capture.splits(), finished.patch)


def rows_of_recording(recording: Recording, patch: bytes) -> TrialRows:
    """The same from a trial's files."""
    splits = [str(split) for split in recording.splits]
    return _rows(recording.calls, recording.asked, recording.replies, recording.segments, splits, patch)


def _rows(
    calls: Sequence[Call],
    asked: Sequence[Asked],
    replies: Sequence[Message],
    segments: Sequence[TrainingSegment],
    splits: Sequence[str],
    patch: bytes,
) -> TrialRows:
    turns = turns_of(asked, replies, {call.index: str(splits[call.segment]) for call in calls})
    trained = {segment.index: segment for segment in segments}
    in_segment: dict[int, int] = dict.fromkeys(range(len(splits)), 0)
    for call in calls:
        in_segment[call.segment] += 1
    return TrialRows(
        calls=[_call(call, turn, reply) for call, turn, reply in zip(calls, turns, replies, strict=True)],
        segments=[
            _segment(index, str(reason), in_segment[index], trained.get(index)) for index, reason in enumerate(splits)
        ],
        behaviour=count(turns, patch).as_dict(),
    )


def _call(call: Call, turn: Turn, reply: Message) -> tuple[Any, ...]:
    sample = call.sample
    acts = [kind for each in turn.done for kind in (kinds(each.acts) if each.acts else ["malformed"])]
    brief = turn.done[0].brief if turn.done else turn.said or reply.reasoning
    return (
        call.index,
        call.segment,
        turn.origin,
        call.prompt_length,
        len(sample.ids),
        sample.finish,
        round(call.seconds, 4),
        int(sample.versions[-1]) if len(sample.versions) else None,
        round(float(sample.logprobs.mean()), 5) if len(sample.logprobs) else None,
        turn.characters,
        turn.thinking_characters,
        len(turn.done),
        turn.malformed,
        " ".join(str(act) for act in acts[:20]),
        one_line(brief),
    )


def _segment(index: int, reason: str, calls: int, segment: TrainingSegment | None) -> tuple[Any, ...]:
    if segment is None:
        return (index, reason, calls, None, None, None, None, None, 0)
    sampled = segment.versions[segment.response_mask.astype(bool)]
    first, last = (int(sampled.min()), int(sampled.max())) if len(sampled) else (None, None)
    return (index, reason, calls, len(segment.prompt_ids), len(segment.response_ids), len(sampled), first, last, 1)

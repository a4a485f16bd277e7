"""Every token of a segment with all that is known of it, as columns: of a trial of 100,000 a page asks for a few."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lego_verl.capture.record import Recording
from lego_verl.capture.segment import NO_VERSION, TrainingSegment
from lego_verl.monitor.token_fates import FATES, Fate, fates_of_segment
from lego_verl.monitor.trained_tokens import TrainedSegment

NO_CALL = -1
FLOATS = ("logprobs", "trainer", "difference", "entropies", "advantages", "weights")


@dataclass(frozen=True)
class TokenColumns:
    """The tokens of one segment; every array is (tokens,). A float that is not known, or does not apply, is NaN."""

    segment: int
    positions: NDArray[np.int64]
    """In the sequence. Of a segment that training did not get the context is not kept, so positions have gaps."""
    ids: NDArray[np.int32]
    calls: NDArray[np.int32]
    """The call that sampled it; ``NO_CALL`` for context."""
    versions: NDArray[np.int32]
    fates: NDArray[np.uint8]
    """Places in ``token_fates.FATES``."""
    logprobs: NDArray[np.float32]
    """At generation, nats."""
    trainer: NDArray[np.float32]
    """The trainer's, before the step's update."""
    difference: NDArray[np.float32]
    """trainer - generation."""
    entropies: NDArray[np.float32]
    advantages: NDArray[np.float32]
    weights: NDArray[np.float32]
    prompt: int = 0
    """Tokens of the prompt, the first ones."""
    routes: NDArray[Any] | None = field(default=None, repr=False)
    """(tokens - 1, layers, top_k): row ``i`` is of the pass that read token ``i``, and sampled the one after it."""

    def __len__(self) -> int:
        return len(self.ids)

    def experts(self, place: int) -> NDArray[Any] | None:
        """(layers, top_k) the experts of the pass that sampled a token; None where they are not known."""
        if self.routes is None or not 0 < place <= len(self.routes) or self.calls[place] == NO_CALL:
            return None
        row: NDArray[Any] = self.routes[place - 1]
        return row

    def largest(self, count: int) -> list[int]:
        """The places of the tokens whose |difference| is largest, the largest first."""
        size = np.abs(np.nan_to_num(self.difference, nan=0.0))
        count = min(count, int((size > 0).sum()))
        if not count:
            return []
        some = np.argpartition(-size, count - 1)[:count]
        return [int(place) for place in some[np.argsort(-size[some], kind="stable")]]


def token_columns(recording: Recording, index: int, whole: Fate, trained: Mapping[int, TrainedSegment]) -> TokenColumns:
    """The tokens of one segment of a trial.

    Args:
        index: of the segment, among all of the trial.
        whole: what became of the trial (``fate_of_trial``).
        trained: ``read_trained`` of the trial.

    Raises:
        LookupError: when there is no such segment.
    """
    if not 0 <= index < len(recording.splits):
        raise LookupError(f"the trial has no segment {index}")
    segment = next((each for each in recording.segments if each.index == index), None)
    if segment is None:
        return _of_calls(recording, index)
    return _of_segment(recording, segment, whole, trained.get(index))


def _of_segment(
    recording: Recording, segment: TrainingSegment, whole: Fate, trained: TrainedSegment | None
) -> TokenColumns:
    prompt, total = len(segment.prompt_ids), len(segment.ids)
    mask = np.concatenate([np.zeros(prompt, bool), segment.response_mask.astype(bool)])

    def spread(values: Any, kind: Any = np.float32, rest: Any = np.nan) -> NDArray[Any]:
        column = np.full(total, rest, dtype=kind)
        if values is not None and len(values) == int(mask.sum()):
            column[mask] = values
        return column

    of_loss = segment.response_mask.astype(bool)
    logprobs = spread(segment.logprobs[of_loss])
    trainer = spread(None if trained is None else trained.logprobs)
    weights = None if trained is None else trained.weights
    if trained is not None and weights is None:
        weights = np.ones(len(trained.advantages), dtype=np.float32)
    calls = np.full(total, NO_CALL, dtype=np.int32)
    for call in recording.calls:
        if call.segment == segment.index:
            calls[call.prompt_length : call.prompt_length + len(call.sample.ids)] = call.index
    return TokenColumns(
        segment=segment.index,
        positions=np.arange(total),
        ids=segment.ids,
        calls=calls,
        versions=spread(segment.versions[of_loss], np.int32, NO_VERSION),
        fates=fates_of_segment(segment, whole, trained),
        logprobs=logprobs,
        trainer=trainer,
        difference=trainer - logprobs,
        entropies=spread(None if trained is None else trained.entropies),
        advantages=spread(None if trained is None else trained.advantages),
        weights=spread(weights),
        prompt=prompt,
        routes=segment.routes,
    )


def _of_calls(recording: Recording, index: int) -> TokenColumns:
    """Of a segment that training did not get only what its calls sampled is kept."""
    calls = [call for call in recording.calls if call.segment == index]

    def joined(parts: list[Any], kind: Any) -> NDArray[Any]:
        return np.concatenate([*parts, np.empty(0, kind)]).astype(kind)

    sizes = [len(call.sample.ids) for call in calls]
    unknown = np.full(sum(sizes), np.nan, dtype=np.float32)
    return TokenColumns(
        segment=index,
        positions=joined([call.prompt_length + np.arange(size) for call, size in zip(calls, sizes, strict=True)], int),
        ids=joined([call.sample.ids for call in calls], np.int32),
        calls=np.repeat([call.index for call in calls], sizes).astype(np.int32),
        versions=joined([call.sample.versions for call in calls], np.int32),
        fates=np.full(sum(sizes), FATES.index(Fate.SPLIT), dtype=np.uint8),
        logprobs=joined([call.sample.logprobs for call in calls], np.float32),
        trainer=unknown,
        difference=unknown,
        entropies=unknown,
        advantages=unknown,
        weights=unknown,
    )

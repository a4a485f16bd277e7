"""The two promises, counted: what was trained is compared with what was recorded, token by token.

Nothing here trusts how segments are built: it takes what training gets, and the calls as they came from the
engine, and looks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from lego_verl.capture.call import Call, digest
from lego_verl.capture.segment import TrainingSegment
from lego_verl.capture.split import Split


@dataclass(frozen=True)
class Lost:
    """A generation that the harness never saw."""

    reason: str
    tokens: int


@dataclass(frozen=True)
class Proof:
    """What was trained of a trial, and whether it is what was sampled, where it was sampled."""

    calls: int
    segments: int
    splits: dict[str, int]
    sampled_tokens: int
    loss_tokens: int
    untrained: dict[str, int] = field(default_factory=dict)
    """Sampled tokens without loss, by reason."""
    provenance: float = 1.0
    """Share (0 to 1) of tokens with loss that are one call's sampled token, with its log-probability and its
    version, once. A sampled token that is missing without a reason counts against it."""
    context: float = 1.0
    """Share (0 to 1) of tokens with loss that follow exactly the ids that were sent to the engine."""
    captured: bool = True
    note: str = ""

    @property
    def holds(self) -> bool:
        """Both promises, wholly: a trial may be trained only then."""
        return self.captured and self.provenance == 1.0 and self.context == 1.0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


def not_captured(calls: int, sampled_tokens: int) -> Proof:
    """The proof of a policy that is known only by its text."""
    return Proof(
        calls=calls,
        segments=0,
        splits={},
        sampled_tokens=sampled_tokens,
        loss_tokens=0,
        untrained={"not_captured": sampled_tokens} if sampled_tokens else {},
        provenance=0.0,
        context=0.0,
        captured=False,
        note="not captured: the endpoint returns no token ids",
    )


def prove(
    segments: Sequence[TrainingSegment], calls: Sequence[Call], splits: Sequence[Split], lost: Sequence[Lost] = ()
) -> Proof:
    """Check segments against calls.

    Args:
        segments: as training gets them.
        calls: all calls of the trial, in order.
        splits: the reason of every segment, trained or not, by its index.
        lost: generations that became no call.
    """
    by_index = {segment.index: segment for segment in segments}
    owned: dict[int, list[Call]] = {segment.index: [] for segment in segments}
    untrained: Counter[str] = Counter()
    for loss in lost:
        if loss.tokens:
            untrained[loss.reason] += loss.tokens
    for call in calls:
        if call.segment in owned:
            owned[call.segment].append(call)
        else:
            untrained[str(splits[call.segment])] += len(call.sample.ids)

    loss_tokens = exact = in_context = missing = 0
    for index, segment in by_index.items():
        checked = _check(segment, owned[index])
        loss_tokens += checked.loss
        exact += checked.exact
        in_context += checked.in_context
        missing += checked.missing
    if missing:
        untrained["unaccounted"] += missing
    return Proof(
        calls=len(calls),
        segments=len(splits),
        splits=dict(Counter(str(split) for split in splits)),
        sampled_tokens=sum(len(call.sample.ids) for call in calls) + sum(loss.tokens for loss in lost),
        loss_tokens=loss_tokens,
        untrained=dict(untrained),
        provenance=exact / (loss_tokens + missing) if loss_tokens + missing else 1.0,
        context=in_context / loss_tokens if loss_tokens else 1.0,
    )


@dataclass(frozen=True)
class _Checked:
    loss: int
    exact: int
    in_context: int
    missing: int


def _check(segment: TrainingSegment, calls: Sequence[Call]) -> _Checked:
    ids = segment.ids
    start_of_response = len(segment.prompt_ids)
    mask = segment.response_mask.astype(bool)
    claims = np.zeros(len(mask), dtype=np.int32)
    agrees = np.zeros(len(mask), dtype=bool)
    in_context = np.zeros(len(mask), dtype=bool)
    missing = 0
    for call in calls:
        sample, count = call.sample, len(call.sample.ids)
        start = call.prompt_length - start_of_response
        end = start + count
        if start < 0 or end > len(mask):
            missing += count
            continue
        here = slice(start, end)
        claims[here] += 1
        agrees[here] = (
            (segment.response_ids[here] == sample.ids)
            & (segment.logprobs[here] == sample.logprobs.astype(np.float32))
            & (segment.versions[here] == sample.versions)
        )
        in_context[here] = digest(ids[: call.prompt_length]) == call.prompt_digest and bool(
            # Within a call, every token's context is the tokens that were sampled before it.
            np.array_equal(segment.response_ids[here], sample.ids)
        )
        missing += int((~mask[here]).sum())
    exact = mask & (claims == 1) & agrees
    return _Checked(int(mask.sum()), int(exact.sum()), int((mask & in_context).sum()), missing)

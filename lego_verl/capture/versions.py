"""Which weights sampled a trial: the span of their versions, over all its segments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lego_verl.capture.segment import TrainingSegment


@dataclass(frozen=True)
class VersionSpan:
    """The oldest and the newest weight version among a trial's tokens with loss."""

    oldest: int
    newest: int

    @property
    def width(self) -> int:
        """Weight updates between the trial's first weights and its last; 0 when one version sampled all of it."""
        return self.newest - self.oldest

    def too_wide(self, allowed: int | None) -> str:
        """Why a trial with this span is not to be trained, in one line; empty when it is. None allows every span."""
        if allowed is None or self.width <= allowed:
            return ""
        return (
            f"weights {self.oldest} to {self.newest} sampled it: {self.width} updates, of which {allowed} are allowed"
        )


def version_span(segments: Sequence[TrainingSegment]) -> VersionSpan | None:
    """The span of a trial's segments; None when they hold no token with loss."""
    sampled = [segment.versions[segment.response_mask.astype(bool)] for segment in segments]
    known = [versions for versions in sampled if len(versions)]
    if not known:
        return None
    return VersionSpan(min(int(each.min()) for each in known), max(int(each.max()) for each in known))

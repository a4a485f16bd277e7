"""What an evaluation came to: every trial that was asked for is in the denominator, and infrastructure stands apart."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from lego_verl.evaluate.plan import Cell, Planned
from lego_verl.trial.outcome import Treatment
from lego_verl.trial.record import TrialRecord

_Z = 1.959964
"""Of a two-sided interval of 95 %."""


@dataclass
class Count:
    """The trials of one cell. ``requested == solved + failed + infrastructure + pending``."""

    harness: str
    turns: int
    requested: int = 0
    solved: int = 0
    failed: int = 0
    """Graded, and the reward is below 1."""
    infrastructure: int = 0
    """Without a verdict, after all retries: nothing is known of the policy."""
    pending: int = 0
    """Not run yet."""
    outcomes: dict[str, int] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    """One message of each outcome of infrastructure."""
    calls: float | None = None
    """A graded trial, on average; as the next two."""
    sampled_tokens: float | None = None
    seconds: float | None = None

    @property
    def solve_rate(self) -> float | None:
        """Solved of all that were requested; None while trials are pending."""
        return None if self.pending or not self.requested else self.solved / self.requested

    @property
    def interval(self) -> tuple[float, float] | None:
        """Of the solve rate, 95 %."""
        return None if self.solve_rate is None else wilson(self.solved, self.requested)

    @property
    def solve_rate_graded(self) -> float | None:
        """Solved of those that have a verdict."""
        graded = self.solved + self.failed
        return self.solved / graded if graded else None

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        rates = {"solve_rate": self.solve_rate, "interval": self.interval, "solve_rate_graded": self.solve_rate_graded}
        return {**asdict(self), **rates}


def count(planned: Sequence[Planned], records: Mapping[str, TrialRecord]) -> list[Count]:
    """A count of each cell, in the plan's order.

    Args:
        records: by the name of the trial.
    """
    cells: dict[Cell, list[TrialRecord | None]] = {}
    for each in planned:
        cells.setdefault(each.cell, []).append(records.get(each.name))
    return [_count(cell, found) for cell, found in cells.items()]


def _count(cell: Cell, found: Sequence[TrialRecord | None]) -> Count:
    ended = [record for record in found if record is not None]
    graded = [record for record in ended if record.treatment is not Treatment.DROP]
    counted = Count(cell.harness, cell.turns, requested=len(found), pending=len(found) - len(ended))
    # As training counts: a trial that met its limit may have mended the code.
    counted.solved = sum((record.reward or 0.0) >= 1.0 for record in graded)
    counted.failed = len(graded) - counted.solved
    counted.infrastructure = len(ended) - len(graded)
    counted.outcomes = dict(Counter(str(record.outcome) for record in ended).most_common())
    for record in ended:
        if record.treatment is Treatment.DROP:
            counted.errors.setdefault(str(record.outcome), record.error)
    if graded:
        counted.calls = sum(record.calls for record in graded) / len(graded)
        counted.sampled_tokens = sum(record.sampled_tokens for record in graded) / len(graded)
        counted.seconds = sum(record.seconds.get("total", 0.0) for record in graded) / len(graded)
    return counted


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Wilson's interval of a share, 95 %: it also holds for few trials, and for shares of 0 and 1."""
    if trials < 1:
        raise ValueError("an interval needs at least one trial")
    share, square = successes / trials, _Z * _Z / trials
    middle = (share + square / 2) / (1 + square)
    half = _Z / (1 + square) * math.sqrt(share * (1 - share) / trials + square / (4 * trials))
    # Rounding may put an end at the share's wrong side where the share is 0 or 1.
    return max(0.0, min(share, middle - half)), min(1.0, max(share, middle + half))

"""Whether a number really changes over a run, and how one says so in plain words.

Two tests, neither of which takes anything for normal or straight:

*Over steps*: Mann and Kendall's. Of all pairs of steps it counts in how many the later one is higher; where nothing
changes it is about half. The size of the change is Theil and Sen's: the median slope of all pairs, over all steps.
Steps that resemble their neighbours make it too sure of itself (Hamed and Rao 1998), so the pairs are of means of
blocks of steps, which are made longer until they do not resemble each other.

*Over tasks*: the sign test. Of the tasks that were worked on in both the first and the last part of a run, it counts
those whose mean rose; where nothing changes it is half of those that changed. It is exact, and which tasks came when
cannot mislead it: each is compared with itself.

A change is called real where it would come by chance in less than one of a hundred runs, divided by how many measures
were looked at (Bonferroni): who looks at twenty finds one in five by chance.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

LEVEL = 0.01
LEAST_POINTS = 8
"""Blocks of steps, and tasks that changed, under which nothing is said to be real."""
_MOST_POINTS = 60
_TOO_ALIKE = 0.2

Direction = Literal["rises", "falls", "no clear change", "too little to tell"]


@dataclass(frozen=True)
class Trend:
    """What a series did."""

    direction: Direction
    first: float | None
    """Mean of the first third; ``last`` of the last."""
    last: float | None
    change: float | None
    """Theil and Sen's, from the first point to the last; of tasks the median of their changes."""
    p: float | None
    """How often chance alone would make such a series, at least as clear."""
    points: int
    says: str
    """For a person."""


def over_steps(steps: Sequence[float], values: Sequence[float | None], *, looked_at: int = 1) -> Trend:
    """The trend of a value by step.

    Args:
        looked_at: measures that are looked at together.
    """
    pairs = [(step, value) for step, value in zip(steps, values, strict=True) if value is not None]
    x, y = (np.array([pair[i] for pair in pairs], dtype=float) for i in (0, 1))
    first, last = _thirds(y)
    x, y = _blocks(x, y)
    n = len(y)
    if n < LEAST_POINTS:
        return Trend("too little to tell", first, last, None, None, n, f"too little to tell: {n} points")
    earlier, later = np.triu_indices(n, 1)
    differences = y[later] - y[earlier]
    score = float(np.sign(differences).sum())
    _, ties = np.unique(y, return_counts=True)
    variance = (n * (n - 1) * (2 * n + 5) - float((ties * (ties - 1) * (2 * ties + 5)).sum())) / 18
    p = 1.0 if variance <= 0 else math.erfc(max(abs(score) - 1, 0) / math.sqrt(variance) / math.sqrt(2))
    slope = float(np.median(differences / (x[later] - x[earlier])))
    direction: Direction = "no clear change"
    if p < LEVEL / looked_at and score:
        direction = "rises" if score > 0 else "falls"
    how = f"{_short(first)} -> {_short(last)} (first and last third), {_chance(p)}"
    return Trend(direction, first, last, slope * float(x[-1] - x[0]), p, n, f"{direction}: {how}")


def over_tasks(first: Mapping[str, float], last: Mapping[str, float], *, looked_at: int = 1) -> Trend:
    """How a value changed on the same tasks.

    Args:
        first: mean by task in the first part of a run; ``last`` in the last. Tasks that are not in both do not count.
    """
    tasks = sorted(first.keys() & last.keys())
    changes = [last[task] - first[task] for task in tasks]
    rose, fell = sum(change > 0 for change in changes), sum(change < 0 for change in changes)
    before = sum(first[task] for task in tasks) / len(tasks) if tasks else None
    after = sum(last[task] for task in tasks) / len(tasks) if tasks else None
    n = rose + fell
    if n < LEAST_POINTS:
        says = f"too little to tell: of {len(tasks)} tasks in both parts {n} changed"
        return Trend("too little to tell", before, after, None, None, n, says)
    p = min(1.0, 2 * sum(math.comb(n, k) for k in range(max(rose, fell), n + 1)) / 2**n)
    direction: Direction = "no clear change"
    if p < LEVEL / looked_at:
        direction = "rises" if rose > fell else "falls"
    how = f"of {len(tasks)} tasks {rose} rose and {fell} fell, {_short(before)} -> {_short(after)}, {_chance(p)}"
    return Trend(direction, before, after, float(np.median(changes)), p, n, f"{direction}: {how}")


def _thirds(y: np.ndarray) -> tuple[float | None, float | None]:
    if not len(y):
        return None, None
    third = max(len(y) // 3, 1)
    return float(y[:third].mean()), float(y[-third:].mean())


def _blocks(x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Means of blocks: few enough to be quick, and so long that what is left beside the trend does not resemble its
    neighbour; or as long as a short series allows."""
    size = max(1, len(y) // _MOST_POINTS)
    while len(y) // (size + 1) >= LEAST_POINTS and _alike(*_means(x, y, size)) > _TOO_ALIKE:
        size += 1
    return _means(x, y, size)


def _means(x: np.ndarray, y: np.ndarray, size: int) -> tuple[np.ndarray, np.ndarray]:
    whole = len(y) // size * size
    if size == 1 or not whole:
        return x, y
    return x[-whole:].reshape(-1, size).mean(axis=1), y[-whole:].reshape(-1, size).mean(axis=1)


def _alike(x: np.ndarray, y: np.ndarray) -> float:
    """Correlation of neighbours, beside a straight line or one step, whichever fits better: else a sudden change would
    pass for a series that resembles itself."""
    if len(y) < LEAST_POINTS or float(np.ptp(y)) == 0:
        return 0.0
    x, y = x - x.mean(), y - y.mean()
    line = y - x * float((x * y).sum() / (x * x).sum())
    # The best place for a step is where the means of both sides are furthest apart, for the points that they are of.
    before, size = np.cumsum(y)[1:-2], np.arange(2, len(y) - 1)
    best = int(np.argmax(before * before * (1 / size + 1 / (len(y) - size)))) + 2
    step = np.r_[y[:best] - y[:best].mean(), y[best:] - y[best:].mean()]
    rest = min((line, step), key=lambda left: float((left * left).sum()))
    total = float((rest * rest).sum())
    return float((rest[1:] * rest[:-1]).sum()) / total if total > 1e-12 else 0.0


def _chance(p: float) -> str:
    if p < 1e-4:
        return "chance alone makes as much in less than 1 of 10,000 runs"
    return "chance alone makes as much in " + (f"1 of {round(1 / p)} runs" if p < 0.4 else "many runs")


def _short(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"

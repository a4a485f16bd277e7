"""How far a number is from what chance makes."""

from __future__ import annotations

import math
from collections.abc import Sequence


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)


def sigmas_between(before: Sequence[float], now: Sequence[float]) -> float:
    """How many standard errors the mean of ``now`` is above that of ``before``; 0 of fewer than two values each.

    The spread is that of all values together: what it would be if nothing had changed. So it is never zero where the
    means differ, and few values cannot pass for many: of 8 against 8 the most is 4.
    """
    if len(before) < 2 or len(now) < 2:
        return 0.0
    both = [*before, *now]
    middle = mean(both)
    spread = sum((value - middle) ** 2 for value in both) / len(both)
    if spread <= 0:
        return 0.0
    return (mean(now) - mean(before)) / math.sqrt(spread * (1 / len(before) + 1 / len(now)))


def sigmas_above(count: int, of: int, usual: float) -> float:
    """How many standard errors a count is above what a usual share makes of it."""
    return (count / of - usual) / math.sqrt(usual * (1 - usual) / of) if of else 0.0


def chance_of_as_many(count: int, of: int, usual: float) -> float:
    """The probability of at least ``count`` of ``of`` by chance, each with probability ``usual``."""
    if count <= 0:
        return 1.0
    logs = [
        math.lgamma(of + 1) - math.lgamma(k + 1) - math.lgamma(of - k + 1)
        + k * math.log(usual) + (of - k) * math.log1p(-usual)
        for k in range(count, of + 1)
    ]  # fmt: skip
    return min(1.0, math.fsum(math.exp(each) for each in logs))

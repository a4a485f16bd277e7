"""Two sides compared: how far apart they are, and how far chance alone could have put them apart.

A measure is a ratio of sums over trials, and trials of one group are alike: they are of one task. So the interval of a
measure is made of what groups differ by (the ratio estimator with clusters, Cochran, Sampling Techniques, 1977, 6.8 and
9A), not of what trials do: that would be too narrow. The difference of two solve rates has Newcombe's interval beside
(method 10 of https://doi.org/10.1002/(SICI)1097-0258(19980430)17:8<873::AID-SIM779>3.0.CO;2-I), which holds at 0 and 1
too, and takes trials as independent; of the two the wider one is shown.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import asdict

from lego_verl.evaluate.counts import wilson
from lego_verl.monitor.behaviour.measures import MEASURES, Measure
from lego_verl.monitor.behaviour.trend import over_tasks
from lego_verl.monitor.queries.read import Row
from lego_verl.monitor.store_sums import groups

_Z = 1.959964
SOLVE_RATE = Measure("solve_rate", "solved", "graded", "share", "Solved trials among those that were graded.")
REWARD = Measure("reward", "rewards", "graded", "count", "Mean reward of the trials that were graded.")
COMPARED = (SOLVE_RATE, REWARD, *MEASURES)


def moments(
    db: sqlite3.Connection,
    *,
    first_step: int | None = None,
    last_step: int | None = None,
    split: str = "train",
    harness: str | None = None,
    measures: Sequence[Measure] = COMPARED,
) -> dict[str, tuple[int, float, float, float, float, float]]:
    """Of each measure over the groups of one side: their number, and the sums of a, b, a², ab, b², where the measure is
    the sum of a divided by the sum of b."""
    pairs = {measure.name: (f"ifnull({measure.above}, 0)", f"ifnull({measure.below}, 0)") for measure in measures}
    sums = ", ".join(
        f"sum({b} > 0), sum({a}), sum({b}), sum(1.0 * {a} * {a}), sum(1.0 * {a} * {b}), sum(1.0 * {b} * {b})"
        for a, b in pairs.values()
    )
    columns = sorted({name for measure in measures for name in (measure.above, measure.below)})
    table = groups("step", "split", "task", "group_id", "harness", *columns)
    row = db.execute(
        f"SELECT {sums} FROM {table} WHERE split = ? AND step BETWEEN ? AND ? AND (? IS NULL OR harness = ?)",
        (split, first_step or 0, 1 << 60 if last_step is None else last_step, harness, harness),
    ).fetchone()
    found = {}
    for number, name in enumerate(pairs):
        count, *values = row[6 * number : 6 * number + 6]
        a, b, aa, ab, bb = (float(value or 0) for value in values)
        found[name] = (int(count or 0), a, b, aa, ab, bb)
    return found


def ratio_and_error(n: int, a: float, b: float, aa: float, ab: float, bb: float) -> tuple[float, float] | None:
    """A ratio of sums over ``n`` groups and its standard error; None of nothing, an error of NaN of one group."""
    if not b:
        return None
    ratio = a / b
    spread = max(aa - 2 * ratio * ab + ratio * ratio * bb, 0.0)
    return ratio, math.sqrt(n / (n - 1) * spread) / abs(b) if n > 1 else math.nan


def newcombe(solved: tuple[int, int], graded: tuple[int, int]) -> tuple[float, float]:
    """The 95 % interval of second rate - first rate, of independent trials."""
    (p1, p2) = (s / g for s, g in zip(solved, graded, strict=True))
    (l1, u1), (l2, u2) = (wilson(s, g) for s, g in zip(solved, graded, strict=True))
    difference = p2 - p1
    return (
        difference - math.sqrt((p2 - l2) ** 2 + (u1 - p1) ** 2),
        difference + math.sqrt((u2 - p2) ** 2 + (p1 - l1) ** 2),
    )


def differences(
    ours: Mapping[str, tuple[int, float, float, float, float, float]],
    theirs: Mapping[str, tuple[int, float, float, float, float, float]],
    measures: Sequence[Measure] = COMPARED,
) -> list[Row]:
    """Each measure on both sides (``first``, ``second``: value, and half the width of its 95 % interval), and
    ``difference`` (second - first) with ``low`` and ``high``; ``clear``: the interval does not hold 0."""
    found = []
    for measure in measures:
        sides = [ratio_and_error(*side[measure.name]) for side in (ours, theirs)]
        row: Row = {"name": measure.name, "unit": measure.unit, "says": measure.says}
        for name, side in zip(("first", "second"), sides, strict=True):
            row[name] = None if side is None else {"value": side[0], "half": _half(side[1])}
        row |= {"difference": None, "low": None, "high": None, "clear": None}
        first, second = sides
        if first is not None and second is not None:
            difference = second[0] - first[0]
            half = _Z * math.hypot(first[1], second[1])
            low, high = difference - half, difference + half
            if measure is SOLVE_RATE:
                counts = [(round(side["solve_rate"][1]), round(side["solve_rate"][2])) for side in (ours, theirs)]
                least, most = newcombe((counts[0][0], counts[1][0]), (counts[0][1], counts[1][1]))
                low, high = (least, most) if math.isnan(half) else (min(low, least), max(high, most))
            known = not math.isnan(low)
            row["difference"] = difference
            row |= {"low": low, "high": high, "clear": low > 0 or high < 0} if known else {}
        found.append(row)
    return found


def _half(error: float) -> float | None:
    return None if math.isnan(error) else _Z * error


def same_tasks(first: Mapping[str, Sequence[int]], second: Mapping[str, Sequence[int]]) -> Row:
    """The tasks that both sides worked on, by how their solve rate differs, and what that says (exact sign test).

    Args:
        first: (solved, graded) by task, as ``side`` has them.
    """
    shared = [task for task in sorted(first.keys() & second.keys()) if first[task][1] and second[task][1]]
    rates = [{task: side[task][0] / side[task][1] for task in shared} for side in (first, second)]
    rows = [
        {
            "task": task,
            "first": list(first[task]),
            "second": list(second[task]),
            "change": rates[1][task] - rates[0][task],
        }
        for task in shared
    ]
    rows.sort(key=lambda row: (row["change"], row["task"]))
    return {"tasks": rows, "trend": asdict(over_tasks(*rates)), "only_first": len(first) - len(shared),
            "only_second": len(second) - len(shared)}  # fmt: skip

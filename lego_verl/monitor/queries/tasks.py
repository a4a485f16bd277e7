"""Tasks: the grid of solve rates over steps, and how each task went."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from lego_verl.evaluate.counts import wilson
from lego_verl.monitor.queries.read import Row
from lego_verl.monitor.store_sums import groups


def tasks(db: sqlite3.Connection, *, split: str = "train", harness: str | None = None) -> list[Row]:
    """Every task with its cells by step (``[step, solved, graded, without variance]``) and how it went: ``always``
    solved, ``never``, ``improved``, ``regressed``, ``mixed``, or ``ungraded``.

    ``improved`` and ``regressed`` compare the first half of its graded trials with the second: the intervals of both
    rates do not overlap, or it went from never to always.
    """
    table = groups("task", "step", "split", "harness", "solved", "graded", "reward_min", "reward_max")
    rows = db.execute(
        f"SELECT task, step, sum(solved), sum(graded), min(graded < 2 OR reward_min = reward_max) FROM {table} "
        "WHERE split = ? AND (? IS NULL OR harness = ?) GROUP BY task, step ORDER BY task, step",
        (split, harness, harness),
    )
    found: dict[str, list[list[int]]] = {}
    for task, step, solved, graded, flat in rows:
        found.setdefault(task, []).append([step, solved or 0, graded, int(bool(flat))])
    return [
        {
            "task": task,
            "solved": sum(cell[1] for cell in cells),
            "graded": sum(cell[2] for cell in cells),
            "went": _went(cells),
            "cells": cells,
        }
        for task, cells in found.items()
    ]


def _went(cells: Sequence[Sequence[int]]) -> str:
    solved, graded = sum(cell[1] for cell in cells), sum(cell[2] for cell in cells)
    if not graded:
        return "ungraded"
    if solved in (0, graded):
        return "always" if solved else "never"
    first = [0, 0]
    for cell in cells:
        if 2 * first[1] >= graded:
            break
        first = [first[0] + cell[1], first[1] + cell[2]]
    rest = [solved - first[0], graded - first[1]]
    if not rest[1]:
        return "mixed"
    low, high = wilson(*first), wilson(*rest)
    if high[0] > low[1] or (first[0] == 0 and rest[0] == rest[1]):
        return "improved"
    return "regressed" if high[1] < low[0] or (first[0] == first[1] and rest[0] == 0) else "mixed"

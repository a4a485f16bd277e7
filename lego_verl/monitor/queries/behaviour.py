"""Behaviour: measures by step, and whether they change."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Sequence
from dataclasses import asdict

from lego_verl.monitor.behaviour.measures import MEASURES, Measure
from lego_verl.monitor.behaviour.trend import over_steps, over_tasks
from lego_verl.monitor.queries.read import Row, all_rows, column, ratio
from lego_verl.monitor.store_sums import groups, steps

_KEYS = ("step", "split", "task", "harness")


def behaviour(
    db: sqlite3.Connection,
    *,
    split: str = "train",
    harness: str | None = None,
    tasks: Collection[str] | None = None,
    measures: Sequence[Measure] = MEASURES,
) -> list[Row]:
    """Every measure by step.

    Args:
        tasks: only of these (``cohort``): else a change may be one of which tasks came when.
    """
    columns = sorted({name for measure in measures for name in (measure.above, measure.below)})
    sums = ", ".join(f"sum({name}) AS {name}" for name in columns)
    chosen, values = "", [split, harness, harness]
    if tasks is not None:
        chosen = "AND task IN (SELECT value FROM json_each(?))"
        values.append(json.dumps(sorted(tasks)))
    # Without a choice of tasks the sums of whole steps will do.
    table = steps("step", "split", "harness", *columns) if tasks is None else groups(*_KEYS, *columns)
    rows = all_rows(
        db,
        f"SELECT step, {sums} FROM {table} WHERE split = ? AND (? IS NULL OR harness = ?) {chosen} GROUP BY step",
        values,
    )
    return [{"step": row["step"], **{m.name: ratio(row[m.above], row[m.below]) for m in measures}} for row in rows]


def cohort(db: sqlite3.Connection, *, split: str = "train", harness: str | None = None) -> list[str]:
    """The tasks that were worked on in both the first and the last third of the steps: those that can be compared."""
    first, last = thirds(db, split)
    return column(
        db,
        f"SELECT task FROM {groups(*_KEYS, 'observed')} WHERE split = ? AND (? IS NULL OR harness = ?) "
        "AND observed > 0 GROUP BY task HAVING sum(step <= ?) > 0 AND sum(step >= ?) > 0 ORDER BY task",
        (split, harness, harness, first, last),
    )


def thirds(db: sqlite3.Connection, split: str = "train") -> tuple[int, int]:
    """The last step of the first third of a run's steps, and the first of the last third."""
    found = column(db, f"SELECT DISTINCT step FROM {steps('step', 'split')} WHERE split = ? ORDER BY step", split)
    if not found:
        return 0, 0
    third = max(len(found) // 3, 1)
    return found[third - 1], found[-third]


def trends(db: sqlite3.Connection, *, split: str = "train", harness: str | None = None) -> dict[str, Row]:
    """Of every measure: what it did over steps, and on the same tasks, each with a plain statement (``says``)."""
    by_step = behaviour(db, split=split, harness=harness)
    first, last = thirds(db, split)
    columns = sorted({name for measure in MEASURES for name in (measure.above, measure.below)})
    parts = []
    for low, high in ((-1, first), (last, 1 << 60)):
        rows = all_rows(
            db,
            f"SELECT task, {', '.join(f'sum({name}) AS {name}' for name in columns)} "
            f"FROM {groups(*_KEYS, *columns)} WHERE split = ? AND (? IS NULL OR harness = ?) "
            "AND step BETWEEN ? AND ? GROUP BY task",
            (split, harness, harness, low, high),
        )
        parts.append(rows if last > first else [])
    found: dict[str, Row] = {}
    for measure in MEASURES:
        of_steps = over_steps(
            [row["step"] for row in by_step], [row[measure.name] for row in by_step], looked_at=len(MEASURES)
        )
        sides = [
            {row["task"]: value for row in part if (value := ratio(row[measure.above], row[measure.below])) is not None}
            for part in parts
        ]
        same_tasks = over_tasks(sides[0], sides[1], looked_at=len(MEASURES))
        found[measure.name] = {
            "what": measure.says,
            "unit": measure.unit,
            "steps": asdict(of_steps),
            "same_tasks": asdict(same_tasks),
        }
    return found

"""Compare: two runs, two spans of steps, two harnesses; one task's trials side by side."""

from __future__ import annotations

import sqlite3

from lego_verl.monitor.behaviour.measures import MEASURES
from lego_verl.monitor.queries.outcomes import SHOWN
from lego_verl.monitor.queries.read import Row, all_rows, rate, ratio
from lego_verl.monitor.store_sums import endings, groups, steps

_COUNTS = ("trials", "graded", "solved", "rewards", "dropped")


def side(
    db: sqlite3.Connection,
    *,
    first_step: int | None = None,
    last_step: int | None = None,
    split: str = "train",
    harness: str | None = None,
) -> Row:
    """One side of a comparison: two runs, two spans of steps, or two harnesses are two of these."""
    columns = sorted({name for measure in MEASURES for name in (measure.above, measure.below)} - {*_COUNTS})
    sums = ", ".join(f"sum({name}) AS {name}" for name in columns)
    low, high = first_step or 0, 1 << 60 if last_step is None else last_step
    where = "WHERE split = ? AND step BETWEEN ? AND ? AND (? IS NULL OR harness = ?)"
    values = (split, low, high, harness, harness)
    row = all_rows(
        db,
        "SELECT sum(trials) AS trials, sum(graded) AS graded, sum(solved) AS solved, sum(rewards) AS rewards, "
        f"sum(dropped) AS dropped, min(step) AS first_step, max(step) AS last_step, {sums} "
        f"FROM {steps('step', 'split', 'harness', *_COUNTS, *columns)} {where}",
        values,
    )[0]
    ended = all_rows(
        db,
        "SELECT outcome, sum(trials) AS trials "
        f"FROM {endings('step', 'split', 'harness', 'outcome', 'trials')} {where} GROUP BY outcome",
        values,
    )
    return {
        **{name: row[name] for name in ("first_step", "last_step", "trials", "graded", "solved", "dropped")},
        "solve_rate": rate(row["solved"] or 0, row["graded"] or 0),
        "outcomes": {each["outcome"]: each["trials"] for each in ended},
        "behaviour": {measure.name: ratio(row[measure.above], row[measure.below]) for measure in MEASURES},
        "tasks": {
            each["task"]: (each["solved"] or 0, each["graded"])
            for each in all_rows(
                db,
                f"SELECT task, sum(solved) AS solved, sum(graded) AS graded "
                f"FROM {groups('step', 'split', 'harness', 'task', 'solved', 'graded')} {where} GROUP BY task",
                values,
            )
        },
    }


def trials_of_task(db: sqlite3.Connection, task: str, *, limit: int = 200) -> list[Row]:
    """One task's trials side by side, the newest first, with what they did."""
    return all_rows(
        db,
        f"SELECT t.*, b.turns, b.tool_calls, b.edits, b.tests, b.patch_lines, b.last_act FROM (SELECT {SHOWN} "
        "FROM trials WHERE task = ? ORDER BY step DESC, id DESC LIMIT ?) t LEFT JOIN behaviour b ON b.trial_id = t.id",
        (task, limit),
    )

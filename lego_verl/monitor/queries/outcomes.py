"""Outcomes: how trials ended, and the trials behind each number."""

from __future__ import annotations

import sqlite3
from typing import Any

from lego_verl.monitor.queries.read import Row, all_rows
from lego_verl.monitor.store_sums import endings


def outcomes(db: sqlite3.Connection, *, split: str = "train", harness: str | None = None) -> list[Row]:
    """How the trials of each step ended, whether they were trained, and why not. A step's counts sum to its trials."""
    table = endings("step", "split", "harness", "outcome", "trained", "why_not", "trials")
    return all_rows(
        db,
        f"SELECT step, outcome, trained, why_not, sum(trials) AS trials FROM {table} "
        "WHERE split = ? AND (? IS NULL OR harness = ?) GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4",
        (split, harness, harness),
    )


def where_they_end(db: sqlite3.Connection, *, split: str = "train") -> list[Row]:
    """What trials did last, by step and outcome."""
    table = endings("step", "split", "outcome", "last_act", "trials")
    return all_rows(
        db,
        f"SELECT step, outcome, last_act, sum(trials) AS trials FROM {table} WHERE split = ? GROUP BY 1, 2, 3",
        (split,),
    )


_FILTERS = {
    "step": "step = ?", "split": "split = ?", "outcome": "outcome = ?", "why_not": "why_not = ?", "task": "task = ?",
    "harness": "harness = ?", "group_id": "group_id = ?", "state": "state = ?", "first_step": "step >= ?",
    "last_step": "step <= ?", "trained": "trained = ?",
}  # fmt: skip
SHOWN = (
    "id, step, split, trial, task, harness, state, attempts, outcome, trained, why_not, reward, error, calls, "
    "signs, segments, sampled_tokens, loss_tokens, total_seconds, started, ended"
)


def trials(
    db: sqlite3.Connection, *, limit: int = 100, offset: int = 0, slowest: bool = False, **where: Any
) -> list[Row]:
    """Trials that fit (``step, split, outcome, why_not, task, harness, group_id, state, first_step, last_step,
    trained``), the newest first; or the slowest.

    Raises:
        KeyError: for another filter.
    """
    given = {name: value for name, value in where.items() if value is not None}
    chosen = " AND ".join(_FILTERS[name] for name in given) or "1"
    order = "total_seconds DESC" if slowest else "step DESC, id DESC"
    return all_rows(
        db,
        f"SELECT {SHOWN} FROM trials WHERE {chosen} ORDER BY {order} LIMIT ? OFFSET ?",
        (*given.values(), limit, offset),
    )

"""Time: where it went."""

from __future__ import annotations

import sqlite3

from lego_verl.monitor.queries.learning import curves
from lego_verl.monitor.queries.outcomes import trials
from lego_verl.monitor.queries.read import Row, all_rows
from lego_verl.monitor.store_sums import steps

_PHASES = ("queued", "start", "harness", "generation", "patch", "grading")


def times(db: sqlite3.Connection, *, split: str = "train") -> Row:
    """Where the time of each step went: of its trials summed by phase, of the step by verl's own phases; what runs now,
    and the slowest trials."""
    columns = [f"{phase}_seconds" for phase in _PHASES]
    table = steps("step", "split", *columns, "total_seconds", "slowest_seconds", "trials")
    sums = ", ".join(f"sum({phase}_seconds) AS {phase}" for phase in _PHASES)
    return {
        "trials": all_rows(
            db,
            f"SELECT step, {sums}, sum(total_seconds) AS total, max(slowest_seconds) AS slowest, sum(trials) AS trials "
            f"FROM {table} WHERE split = ? GROUP BY step",
            (split,),
        ),
        "steps": curves(db, ("seconds_by_phase/step/", "seconds")),
        "running": all_rows(
            db,
            "SELECT step, split, trial, task, harness, attempts, started FROM trials INDEXED BY trials_running "
            "WHERE state = 'running' ORDER BY started LIMIT 200",
        ),
        "slowest": trials(db, slowest=True, limit=20),
    }

"""The trials of a step as a table for verl's loggers: some rows, the rarest endings first, so that none is cut off."""

from __future__ import annotations

import sqlite3
from collections import Counter
from typing import Any
from urllib.parse import quote

from lego_verl.monitor.queries.read import all_rows

COLUMNS = (
    *("trial", "task", "harness", "outcome", "reward", "turns", "tokens", "seconds", "patch_lines", "trained", "link"),
)
_BACK = 30
"""Steps back in which a trial that a step trained may have begun."""


def trial_table(db: sqlite3.Connection, step: int, *, run: str, rows: int) -> list[list[Any]]:
    """Rows by ``COLUMNS`` of the trials that a step closed.

    Args:
        rows: at most.
    """
    found = all_rows(
        db,
        "SELECT t.step, t.trial, t.task, t.harness, t.outcome, t.reward, b.turns, t.sampled_tokens AS tokens, "
        "t.total_seconds AS seconds, b.patch_lines, t.trained FROM trials t LEFT JOIN behaviour b ON b.trial_id = t.id "
        "WHERE t.step > ? AND t.step <= ? AND t.split = 'train' AND t.trained_step = ? ORDER BY t.task, t.trial",
        (step - _BACK, step, step),
    )
    often = Counter(row["outcome"] for row in found)
    found.sort(key=lambda row: often[row["outcome"]])
    place = f"#/run/{quote(run, safe='')}/trial"
    return [
        [*(row[name] for name in COLUMNS[:-1]), f"{place}/{row['step']}/{quote(row['trial'], safe='')}"]
        for row in found[:rows]
    ]

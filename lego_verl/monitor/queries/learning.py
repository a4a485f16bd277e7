"""Learning: solve rates and metrics by step."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence

from lego_verl.monitor.queries.read import Row, all_rows, column, rate
from lego_verl.monitor.store_sums import steps


def learning(db: sqlite3.Connection, *, split: str = "train", by_harness: bool = False) -> list[Row]:
    """Solve rate with its interval, and reward, by step; by step and harness."""
    keys = "step, harness" if by_harness else "step"
    counts = ("trials", "graded", "solved", "rewards", "dropped", "groups", "zero_variance", "calls", "sampled_tokens")
    rows = all_rows(
        db,
        f"SELECT {keys}, {', '.join(f'sum({name}) AS {name}' for name in counts)} "
        f"FROM {steps('step', 'split', 'harness', *counts)} WHERE split = ? GROUP BY {keys}",
        (split,),
    )
    for row in rows:
        row["solve_rate"] = rate(row["solved"], row["graded"])
        row["reward"] = row["rewards"] / row["graded"] if row["graded"] else None
    return rows


def curves(
    db: sqlite3.Connection, names: Sequence[str], split: str = "train"
) -> dict[str, list[tuple[int, float | None]]]:
    """Metrics by step; a name that ends in ``/`` stands for all that begin so."""
    found: dict[str, list[tuple[int, float | None]]] = {}
    for name in names:
        low, high = (name, name[:-1] + "0") if name.endswith("/") else (name, name + "\0")
        rows = db.execute(
            "SELECT name, step, value FROM metrics WHERE name >= ? AND name < ? AND split = ? ORDER BY name, step",
            (low, high, split),
        )
        for each, step, value in rows:
            found.setdefault(each, []).append((step, value))
    return found


def metric_names(db: sqlite3.Connection) -> list[str]:
    """All metrics there are, found by jumping from one to the next."""
    return column(
        db,
        "WITH RECURSIVE n(name) AS (SELECT min(name) FROM metrics UNION ALL SELECT (SELECT min(m.name) FROM metrics m "
        "WHERE m.name > n.name) FROM n WHERE n.name IS NOT NULL) SELECT name FROM n WHERE name IS NOT NULL",
    )

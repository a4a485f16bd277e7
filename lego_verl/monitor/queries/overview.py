"""Overview: whether a run is alive, where it is, how fast, how well."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Sequence

from lego_verl.monitor.queries.learning import learning
from lego_verl.monitor.queries.read import Row, all_rows, column, one, rate

_RECENT = 5
"""Steps that "now" is made of."""


def overview(db: sqlite3.Connection, *, total_steps: int | None = None, now: float | None = None) -> Row:
    """Whether it is alive, where it is, how fast, how well.

    Args:
        total_steps: of the run; None: not known, and neither is the time left.
    """
    now = time.time() if now is None else now
    last_event = one(db, "SELECT t FROM events ORDER BY id DESC LIMIT 1")
    done = one(db, "SELECT max(step) FROM metrics WHERE name = 'seconds' AND split = 'train'") or 0
    running = all_rows(
        db,
        "SELECT step, split, count(*) AS trials, min(started) AS since FROM trials INDEXED BY trials_running "
        "WHERE state = 'running' GROUP BY step, split",
    )
    seconds = column(
        db,
        "SELECT value FROM metrics WHERE name = 'seconds' AND split = 'train' AND step > ? ORDER BY step",
        done - _RECENT,
    )
    per_step = sorted(seconds)[len(seconds) // 2] if seconds else None
    rows = learning(db)
    recent = [row for row in rows if done - _RECENT < row["step"] <= done]
    beginning = [row for row in rows if row["step"] <= _RECENT]
    held = learning(db, split="heldout")
    return {
        "step": done,
        "total_steps": total_steps,
        "running": running,
        "last_event": last_event,
        "silent_seconds": None if last_event is None else max(now - last_event, 0.0),
        "seconds_a_step": per_step,
        "seconds_left": None if total_steps is None or per_step is None else per_step * max(total_steps - done, 0),
        "solve_rate": _solve_rate(recent),
        "solve_rate_before": _solve_rate(beginning),
        "heldout": held[-1] if held else None,
        "trials": sum(r["trials"] for r in recent),
        "dropped": sum(r["dropped"] or 0 for r in recent),
        "sampled_tokens": sum(r["sampled_tokens"] or 0 for r in recent),
        "recent_steps": len({r["step"] for r in recent}),
        "metrics": latest(db, ("pearson", "entropy", "proof_provenance", "proof_context", "learning_rate")),
        "alerts": events(db, kinds=("alert", "broken", "store"), limit=20),
    }


def _solve_rate(rows: Sequence[Row]) -> Row | None:
    # A step of which nothing is graded yet has no sum.
    return rate(sum(row["solved"] or 0 for row in rows), sum(row["graded"] or 0 for row in rows))


def latest(db: sqlite3.Connection, names: Sequence[str], split: str = "train") -> Row:
    """The newest value of each metric, with its step."""
    found: Row = {}
    for name in names:
        row = db.execute(
            "SELECT value, step FROM metrics WHERE name = ? AND split = ? AND value IS NOT NULL "
            "ORDER BY step DESC LIMIT 1",
            (name, split),
        ).fetchone()
        found[name] = None if row is None else {"value": row[0], "step": row[1]}
    return found


def events(db: sqlite3.Connection, *, kinds: Sequence[str] = (), after: int = 0, limit: int = 100) -> list[Row]:
    """The newest events, the newest first; with ``after`` those of a larger id, which is how a page follows a run."""
    one_kind = "SELECT * FROM (SELECT * FROM events WHERE kind = ? AND id > ? ORDER BY id DESC LIMIT ?)"
    if kinds:  # each by its index: else SQLite looks through all events for the few that are of a rare kind
        query = f"{' UNION ALL '.join([one_kind] * len(kinds))} ORDER BY id DESC LIMIT ?"
        rows = all_rows(db, query, (*(value for kind in kinds for value in (kind, after, limit)), limit))
    else:
        rows = all_rows(db, "SELECT * FROM events WHERE id > ? ORDER BY id DESC LIMIT ?", (after, limit))
    return [{**row, "data": json.loads(row["data"])} for row in rows]

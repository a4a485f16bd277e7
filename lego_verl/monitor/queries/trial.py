"""Trial: all that is stored of one."""

from __future__ import annotations

import json
import sqlite3

from lego_verl.monitor.queries.outcomes import SHOWN
from lego_verl.monitor.queries.read import Row, all_rows


def trial(db: sqlite3.Connection, trial: str, *, step: int | None = None) -> Row | None:
    """All the store holds of one trial, and the others of its group. Texts and tokens are in its folder."""
    row = db.execute(
        "SELECT * FROM trials WHERE trial = ? AND (? IS NULL OR step = ?) ORDER BY step DESC LIMIT 1",
        (trial, step, step),
    ).fetchone()
    if row is None:
        return None
    found = dict(row)
    for name in ("signs", "untrained", "versions"):
        found[name] = json.loads(found[name])
    of = (row["id"],)
    return {
        "trial": found,
        "attempts": all_rows(db, "SELECT * FROM outcomes WHERE trial_id = ? ORDER BY attempt", of),
        "calls": all_rows(db, "SELECT * FROM calls WHERE trial_id = ? ORDER BY call", of),
        "segments": all_rows(db, "SELECT * FROM segments WHERE trial_id = ? ORDER BY segment", of),
        "behaviour": next(iter(all_rows(db, "SELECT * FROM behaviour WHERE trial_id = ?", of)), None),
        "group": all_rows(
            db,
            f"SELECT {SHOWN} FROM trials WHERE step = ? AND split = ? AND task = ? AND group_id = ? ORDER BY trial",
            (row["step"], row["split"], row["task"], row["group_id"]),
        ),
    }

"""A store opened to be read, and what all queries share."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lego_verl.evaluate.counts import wilson

Row = dict[str, Any]


@contextmanager
def read_store(path: Path) -> Iterator[sqlite3.Connection]:
    """A connection that cannot change the store. ``sqlite3.OperationalError`` where there is none."""
    db = sqlite3.connect(f"file:{path.resolve().as_posix().replace('?', '%3f').replace('#', '%23')}?mode=ro", uri=True)
    try:
        db.row_factory = sqlite3.Row
        db.execute("PRAGMA query_only = ON")
        db.execute("PRAGMA cache_size = -64000")
        yield db
    finally:
        db.close()


def rate(solved: int, graded: int) -> Row | None:
    """A share with its interval (Wilson, 95 %) and its counts; None of nothing."""
    if not graded:
        return None
    low, high = wilson(solved, graded)
    return {"value": solved / graded, "low": low, "high": high, "solved": solved, "graded": graded}


def ratio(above: float | None, below: float | None) -> float | None:
    return above / below if above is not None and below else None


def all_rows(db: sqlite3.Connection, query: str, values: Sequence[Any] = ()) -> list[Row]:
    return [dict(row) for row in db.execute(query, values)]


def column(db: sqlite3.Connection, query: str, *values: Any) -> list[Any]:
    flat = values[0] if len(values) == 1 and isinstance(values[0], tuple) else values
    return [row[0] for row in db.execute(query, flat)]


def one(db: sqlite3.Connection, query: str, values: Sequence[Any] = ()) -> Any:
    row = db.execute(query, values).fetchone()
    return None if row is None else row[0]

"""Five trials to read, by rules that are said beside each."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from lego_verl.monitor import queries
from lego_verl.monitor.queries.outcomes import SHOWN
from lego_verl.monitor.queries.read import Row, all_rows

MOST = 5
_RECENT = 5
_FAILED = "trained = 1 AND reward < 1 AND outcome <> 'tampered'"


@dataclass(frozen=True)
class Chosen:
    """A trial, and why it."""

    row: Row
    why: str


def chosen(db: sqlite3.Connection, most: int = MOST) -> list[Chosen]:
    """At most so many, none twice. Where a rule finds nothing, a later one takes its place."""
    found: dict[int, Chosen] = {}
    for rule in (_first_solved, _regressed, _longest, _typical_failure, _not_the_agents, _newest_solved, _any_failure):
        for row, why in rule(db):
            if row["id"] not in found:
                found[row["id"]] = Chosen(row, why)
                break
        if len(found) == most:
            break
    return list(found.values())


_Found = Iterator[tuple[Row, str]]


def _first_solved(db: sqlite3.Connection) -> _Found:
    for row in _trials(db, "reward >= 1", "step, id"):
        yield row, "the first that was solved"


def _regressed(db: sqlite3.Connection) -> _Found:
    """The newest failure of a task that was solved more often before."""
    worse = [each for each in queries.tasks(db) if each["went"] == "regressed"]
    worse.sort(key=lambda each: -each["graded"])
    for task in worse[:5]:
        for row in _trials(db, f"task = ? AND {_FAILED}", "step DESC, id DESC", task["task"]):
            yield row, "the newest failure of a task that was solved more often in the first half of its trials"


def _longest(db: sqlite3.Connection) -> _Found:
    for row in _trials(db, "trained = 1", "calls DESC, id DESC"):
        yield row, f"the one with the most calls ({row['calls']})"


def _typical_failure(db: sqlite3.Connection) -> _Found:
    """Of the most frequent failure of the last steps, the one whose number of calls is the middle one."""
    last = db.execute("SELECT max(step) FROM trials WHERE split = 'train' AND trained = 1").fetchone()[0] or 0
    recent = f"{_FAILED} AND step > ?"
    often = db.execute(
        f"SELECT outcome, count(*) FROM trials WHERE split = 'train' AND {recent} GROUP BY outcome ORDER BY 2 DESC, 1",
        (last - _RECENT,),
    ).fetchone()
    if often is None:
        return
    rows = list(_trials(db, f"{recent} AND outcome = ?", "calls, id", last - _RECENT, often[0], limit=1000))
    middle = len(rows) // 2
    for row in rows[middle:] + rows[:middle]:
        told = f"{often[1]} trials of the last {_RECENT} steps ended {often[0]}"
        yield row, f"a typical failure: {told}; this one has the middle number of calls of them"


def _not_the_agents(db: sqlite3.Connection) -> _Found:
    for row in _trials(db, "outcome = 'tampered' OR signs <> '[]'", "step DESC, id DESC"):
        yield row, "the newest with signs of an attack on the grader"
    for row in _trials(db, "treatment = 'drop'", "step DESC, id DESC"):
        yield row, f"the newest that was dropped: {row['outcome']}"


def _newest_solved(db: sqlite3.Connection) -> _Found:
    for row in _trials(db, "reward >= 1", "step DESC, id DESC"):
        yield row, "the newest that was solved"


def _any_failure(db: sqlite3.Connection) -> _Found:
    for row in _trials(db, _FAILED, "step DESC, id DESC"):
        yield row, "the newest that was not solved"


def _trials(db: sqlite3.Connection, where: str, order: str, *values: Any, limit: int = MOST + 1) -> Iterator[Row]:
    ended = "split = 'train' AND state = 'finished'"
    query = f"SELECT {SHOWN} FROM trials WHERE {ended} AND ({where}) ORDER BY {order} LIMIT ?"
    yield from all_rows(db, query, (*values, limit))

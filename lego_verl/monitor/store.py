"""The run store: what happened in a run, in one SQLite file that is written as it happens.

Every write is one short transaction in write-ahead mode: what is committed outlives a ``kill -9``, readers never wait,
and writers wait for each other for milliseconds. SQLite's write-ahead mode needs all who use the file on one machine:
so in training only the run's ledger writes, and rollout workers, wherever they run, hand it their rows. See
``store_schema`` for the tables.
"""

from __future__ import annotations

import json
import math
import sqlite3
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lego_verl.monitor.store_rows import CALL_COLUMNS, SEGMENT_COLUMNS, TrialRows
from lego_verl.monitor.store_schema import FORMAT, TABLES
from lego_verl.monitor.store_sums import forget_sums, make_sums
from lego_verl.monitor.store_text import harmless

ERROR_CHARACTERS = 4000
_PHASES = ("queued", "start", "harness", "generation", "patch", "grading", "total")
_OF_STEP = ("trials", "metrics", "events", "group_sums", "step_sums", "ending_sums", "open_steps")


class StoreError(ValueError):
    """A file that is no run store, or one of a later format; one line."""


class Store:
    """A connection that writes. One for each thread.

    Args:
        path: ``store.sqlite`` of a run; made where it is not.
        timeout: seconds to wait for another writer.

    Raises:
        StoreError: for a file that is none.
        sqlite3.Error: as of every method: a disk that is full, a file that may not be written.
    """

    def __init__(self, path: Path, *, timeout: float = 30.0) -> None:
        self.path = path
        self._db = sqlite3.connect(path, timeout=timeout, isolation_level=None)
        try:
            self._write_ahead(timeout)
            # A commit is in the write-ahead log when it returns: it survives the process. Only a machine that loses
            # power may lose the last ones, and never the file.
            self._db.execute("PRAGMA synchronous = NORMAL")
            self._db.execute("PRAGMA foreign_keys = ON")
            self._db.execute("PRAGMA cache_size = -16000")
            self._prepare()
        except sqlite3.DatabaseError as error:
            self._db.close()
            if "not a database" in str(error):
                raise StoreError(f"{path} is no run store: {error}") from error
            raise

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def connection(self) -> sqlite3.Connection:
        return self._db

    def _write_ahead(self, timeout: float) -> None:
        """Of those who make a new file so at once SQLite refuses some without waiting: it could be a ring."""
        until = time.monotonic() + timeout
        while True:
            try:
                self._db.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                    raise
                time.sleep(0.01)

    def _prepare(self) -> None:
        found = int(self._db.execute("PRAGMA user_version").fetchone()[0])
        if found > FORMAT:
            raise StoreError(f"{self.path} has format {found}, and this version knows {FORMAT}: update lego_verl")
        if found == FORMAT:
            return
        with self.transaction():
            for statement in TABLES.split(";\n"):
                if statement.strip():
                    self._db.execute(statement)
            self._db.execute(f"PRAGMA user_version = {FORMAT}")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """All or nothing. The lock is taken at once, so that two writers never wait for each other in a ring."""
        self._db.execute("BEGIN IMMEDIATE")
        try:
            yield self._db
        except BaseException:
            if self._db.in_transaction:  # SQLite has ended it by itself where the disk was full
                self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def started(self, step: int, split: str, trial: str, task: str, attempt: int, *, t: float | None = None) -> None:
        """A trial began, or began again. One that has finished stays so: the news came late."""
        with self.transaction() as db:
            db.execute(
                "INSERT INTO trials (step, split, trial, task, state, attempts, started) "
                "VALUES (?, ?, ?, ?, 'running', ?, ?) ON CONFLICT (step, split, trial) DO UPDATE SET "
                "attempts = max(attempts, excluded.attempts), started = excluded.started, "
                "task = excluded.task, state = iif(outcome IS NULL, 'running', state)",
                (step, split, trial, harmless(task), attempt, time.time() if t is None else t),
            )
            forget_sums(db, step, split)

    def retried(self, step: int, split: str, trial: str, outcome: str, error: str | None, *, attempt: int = 0) -> None:
        """An attempt (0: the one that started last) ended by a fault of infrastructure, and another follows."""
        with self.transaction() as db:
            id = self._id(db, step, split, trial)
            attempt = attempt or int(db.execute("SELECT attempts FROM trials WHERE id = ?", (id,)).fetchone()[0])
            self._attempt(db, id, attempt, outcome, error, None, retried=True)

    def refilled(self, step: int, split: str, trial: str, replaced: str) -> None:
        """A trial is to run in the place of one that was dropped."""
        with self.transaction() as db:
            db.execute("UPDATE trials SET replaced = ? WHERE id = ?", (replaced, self._id(db, step, split, trial)))

    def finished(
        self,
        step: int,
        split: str,
        record: Mapping[str, Any],
        rows: TrialRows | None = None,
        *,
        t: float | None = None,
        started: float | None = None,
    ) -> None:
        """A trial ended: its record (``TrialRecord.as_dict``) and, where it was captured, its calls. Writing it again
        replaces what was there; whether it was trained stays.

        Args:
            started: seconds since 1970; None: as ``started`` said.
        """
        ended = time.time() if t is None else t
        with self.transaction() as db:
            values = record_columns(record) | {"ended": ended, "state": "finished"}
            if started is not None:
                values["started"] = started
            id = self._id(db, step, split, str(record["trial"]))
            db.execute(
                f"UPDATE trials SET {', '.join(f'{name} = ?' for name in values)} WHERE id = ?", [*values.values(), id]
            )
            self._attempt(db, id, int(record.get("attempts", 1)), str(record["outcome"]), record.get("error"), ended)
            if rows is not None:
                _insert_rows(db, id, rows)
            forget_sums(db, step, split)

    def closed(self, step: int, split: str, trained: Collection[str], why_not: Mapping[str, str]) -> None:
        """A step is over.

        Args:
            trained: the trials that it trained, whenever they began; none of held-out ones.
            why_not: those that it did not, by name: the outcome that dropped it, or ``small_group``.
        """
        rows: list[tuple[Any, ...]] = [(1, None, step, split, trial) for trial in trained]
        rows += [(0, why, step, split, trial) for trial, why in why_not.items()]
        with self.transaction() as db:
            if split == "train":
                db.executemany(
                    "UPDATE trials SET trained = ?, why_not = ?, trained_step = ? WHERE split = ? AND trial = ?", rows
                )
            steps = {step}
            for *_, trial in rows:
                steps |= {each[0] for each in db.execute("SELECT step FROM trials WHERE trial = ?", (trial,))}
            for each in steps:
                make_sums(db, each, split)

    def metrics(self, step: int, values: Mapping[str, Any], split: str = "train") -> None:
        """Numbers of a step, nested or not: ``{"outcomes": {"solved": 3}}`` is ``outcomes/solved``. What is no number
        is left out, and NaN is NULL."""
        rows = [(name, split, step, value) for name, value in flat(values) if name != "step"]
        with self.transaction() as db:
            db.executemany("INSERT OR REPLACE INTO metrics VALUES (?, ?, ?, ?)", rows)

    def event(
        self, kind: str, step: int | None = None, split: str | None = None, *, t: float | None = None, **data: Any
    ) -> None:
        """What happened. ``trial`` in ``data`` gets a column of its own."""
        trial = data.pop("trial", None)
        text = json.dumps({key: _plain(value) for key, value in data.items()}, default=str)
        values = (time.time() if t is None else t, kind, step, split, trial, text)
        with self.transaction() as db:
            db.execute("INSERT INTO events (t, kind, step, split, trial, data) VALUES (?, ?, ?, ?, ?, ?)", values)

    def forget_after(self, step: int) -> None:
        """Forget what happened after a step: a resumed run does it again."""
        with self.transaction() as db:
            for table in _OF_STEP:
                db.execute(f"DELETE FROM {table} WHERE step > ?", (step,))

    def make_all_sums(self) -> None:
        """Sums of every step that has none, whether or not it is over: what comes later removes them."""
        for step, split in self._db.execute("SELECT step, split FROM open_steps").fetchall():
            with self.transaction() as db:
                make_sums(db, step, split)

    def meta(self, key: str) -> str | None:
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        return None if row is None else str(row[0])

    def set_meta(self, key: str, value: object) -> None:
        with self.transaction() as db:
            db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", (key, str(value)))

    @staticmethod
    def _id(db: sqlite3.Connection, step: int, split: str, trial: str) -> int:
        found = db.execute(
            "SELECT id FROM trials WHERE step = ? AND split = ? AND trial = ?", (step, split, trial)
        ).fetchone()
        if found is None:
            made = "INSERT INTO trials (step, split, trial, task, state) VALUES (?, ?, ?, '', 'running') RETURNING id"
            found = db.execute(made, (step, split, trial)).fetchone()
        return int(found[0])

    @staticmethod
    def _attempt(
        db: sqlite3.Connection,
        id: int,
        attempt: int,
        outcome: str,
        error: object,
        ended: float | None,
        *,
        retried: bool = False,
    ) -> None:
        values = (id, attempt, outcome, harmless(error or "", ERROR_CHARACTERS), ended or time.time(), int(retried))
        db.execute("INSERT OR REPLACE INTO outcomes VALUES (?, ?, ?, ?, ?, ?)", values)


def record_columns(record: Mapping[str, Any]) -> dict[str, Any]:
    """The columns of ``trials`` that a trial's record fills."""
    proof, versions = record.get("proof") or {}, dict(record.get("versions") or {})
    seconds = record.get("seconds") or {}
    return {
        "task": harmless(record["task"]),
        "group_id": str(record.get("group") or ""),
        "harness": str(record.get("harness") or ""),
        "attempts": int(record.get("attempts", 1)),
        "outcome": str(record["outcome"]),
        "treatment": str(record.get("treatment") or ""),
        "reward": record.get("reward"),
        "error": harmless(record.get("error") or "", ERROR_CHARACTERS),
        "signs": json.dumps([harmless(sign, 500) for sign in record.get("signs") or ()]),
        **{f"{phase}_seconds": seconds.get(phase) for phase in _PHASES},
        "calls": record.get("calls"),
        "segments": record.get("segments"),
        "sampled_tokens": record.get("sampled_tokens"),
        "loss_tokens": proof.get("loss_tokens"),
        "provenance": proof.get("provenance"),
        "context": proof.get("context"),
        "untrained": json.dumps(proof.get("untrained") or {}),
        "weights_first": versions.pop("weights_first", None),
        "weights_last": versions.pop("weights_last", None),
        "versions": json.dumps(versions),
    }


def flat(values: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, float | None]]:
    """Numbers of a nested mapping, by names joined with ``/``."""
    for key, value in values.items():
        name = f"{above}{key}"
        if isinstance(value, Mapping):
            yield from flat(value, f"{name}/")
        elif hasattr(value, "item") or isinstance(value, bool | int | float):
            number = float(value.item() if hasattr(value, "item") else value)
            yield name, number if math.isfinite(number) else None


def _insert_rows(db: sqlite3.Connection, id: int, rows: TrialRows) -> None:
    for table, columns, many in (
        ("calls", CALL_COLUMNS, rows.calls),
        ("segments", SEGMENT_COLUMNS, rows.segments),
        ("behaviour", tuple(rows.behaviour), [tuple(rows.behaviour.values())] if rows.behaviour else []),
    ):
        db.execute(f"DELETE FROM {table} WHERE trial_id = ?", (id,))
        _insert(db, table, columns, ((id, *row) for row in many))


def _insert(db: sqlite3.Connection, table: str, columns: tuple[str, ...], rows: Iterable[tuple[Any, ...]]) -> None:
    marks = ", ".join("?" * (len(columns) + 1))
    db.executemany(f"INSERT INTO {table} (trial_id, {', '.join(columns)}) VALUES ({marks})", rows)


def _plain(value: Any) -> Any:
    return harmless(value, ERROR_CHARACTERS) if isinstance(value, str) else value

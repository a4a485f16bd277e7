"""The run store: written as things happen, by many at once, and whole whatever happens to a writer."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from monitor_run import record, rows

from lego_verl.monitor.run_folder import RunFolder
from lego_verl.monitor.store import Store, StoreError, flat
from lego_verl.monitor.store_rows import CALL_COLUMNS, SEGMENT_COLUMNS
from lego_verl.monitor.store_schema import FORMAT
from lego_verl.monitor.store_sums import BEHAVIOUR
from lego_verl.monitor.store_writer import LOST, StoreWriter
from lego_verl.trial.outcome import Outcome
from lego_verl.workers.run_ledger import RunLedger

WRITE_FOR_EVER = """
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from monitor_run import record, rows
from lego_verl.monitor.store import Store
with Store(Path(sys.argv[1])) as store:
    number = 0
    while True:
        store.started(1, "train", f"{sys.argv[3]}-{number}", "task", 1)
        store.finished(1, "train", record(f"{sys.argv[3]}-{number}"), rows(int(sys.argv[4])))
        print(number, flush=True)
        number += 1
"""
HERE = str(Path(__file__).parent)
CALLS = 2000
"""Of a trial, so that it takes a while to write."""


def writer(path: Path, name: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITE_FOR_EVER, str(path), HERE, name, str(CALLS)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def write_25(path: Path, number: int, together: Any) -> None:
    together.wait(60)
    with Store(path) as store:
        for trial in range(25):
            store.started(1, "train", f"w{number}-{trial}", "task", 1)
            store.finished(1, "train", record(f"w{number}-{trial}"), rows(40))


def rows_of(path: Path, query: str) -> list[tuple[object, ...]]:
    with sqlite3.connect(path) as db:
        return db.execute(query).fetchall()


@pytest.mark.parametrize("within", [0.25, 0.5, 0.75])
def test_kill_9_loses_at_most_the_record_in_flight(within: float, tmp_path: Path) -> None:
    """Killed in the midst of a record: most of a record's time are the rows of its calls."""
    path = tmp_path / "store.sqlite"
    with writer(path, "a") as process:
        assert process.stdout is not None
        began, acknowledged = 0.0, -1
        for line in process.stdout:
            acknowledged = int(line)
            began = began or time.monotonic()
            if acknowledged >= 20:
                time.sleep(within * (time.monotonic() - began) / acknowledged)
                os.kill(process.pid, signal.SIGKILL)
                break
        acknowledged = max([acknowledged, *(int(line) for line in process.stdout if line.endswith("\n"))])
    finished = rows_of(path, "SELECT trial FROM trials WHERE state = 'finished'")
    # Every trial that was written is there, with all its rows; the one that was being written is there wholly or not.
    assert acknowledged + 1 <= len(finished) <= acknowledged + 2
    assert rows_of(path, f"SELECT count(*) FROM calls GROUP BY trial_id HAVING count(*) != {CALLS}") == []
    assert rows_of(path, "SELECT count(*) FROM calls")[0][0] == CALLS * len(finished)
    assert rows_of(path, "PRAGMA integrity_check") == [("ok",)]
    with Store(path) as store:  # and it can be gone on with
        store.finished(1, "train", record("after"))


def test_20_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    # Forked, so that they really write at once: one that first imports everything comes too late.
    context = multiprocessing.get_context("fork")
    together = context.Barrier(20)
    processes = [context.Process(target=write_25, args=(path, number, together)) for number in range(20)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(timeout=120)
    assert [process.exitcode for process in processes] == [0] * 20
    names = {name for (name,) in rows_of(path, "SELECT trial FROM trials WHERE state = 'finished'")}
    assert names == {f"w{writer}-{number}" for writer in range(20) for number in range(25)}
    assert rows_of(path, "SELECT count(*) FROM calls")[0][0] == 20 * 25 * 40
    assert rows_of(path, "SELECT count(*) FROM outcomes")[0][0] == 20 * 25


def test_a_new_store_is_made_by_many_at_once(tmp_path: Path) -> None:
    """SQLite refuses some of them without waiting, one in several hundred: so many are made."""
    together = threading.Barrier(12)

    def make(number: int) -> None:
        together.wait(60)
        Store(tmp_path / f"{number}.sqlite").close()

    with ThreadPoolExecutor(12) as makers:
        for number in range(100):
            list(makers.map(make, [number] * 12))


def test_a_record_that_is_written_again_is_there_once(tmp_path: Path) -> None:
    with Store(tmp_path / "s") as store:
        store.started(1, "train", "t", "task", 1)
        store.retried(1, "train", "t", "sandbox_lost", "gone")
        store.started(1, "train", "t", "task", 2)
        for _ in range(2):
            store.finished(1, "train", record("t", attempts=2), rows())
        store.started(1, "train", "t", "task", 2)  # late news
    assert rows_of(tmp_path / "s", "SELECT state, attempts, outcome FROM trials") == [("finished", 2, "solved")]
    attempts = rows_of(tmp_path / "s", "SELECT attempt, outcome, retried FROM outcomes ORDER BY attempt")
    assert attempts == [(1, "sandbox_lost", 1), (2, "solved", 0)]
    assert rows_of(tmp_path / "s", "SELECT count(*) FROM calls") == [(3,)]


def test_a_resumed_run_does_its_later_steps_again(tmp_path: Path) -> None:
    with Store(tmp_path / "s") as store:
        for step in (1, 2, 3):
            store.finished(step, "train", record(f"t{step}"), rows())
            store.closed(step, "train", [f"t{step}"], {})
            store.metrics(step, {"seconds": 1.0})
            store.event("finished", step, "train", trial=f"t{step}")
        store.forget_after(1)
    for table in ("trials", "metrics", "events", "group_sums", "step_sums", "ending_sums"):
        assert rows_of(tmp_path / "s", f"SELECT DISTINCT step FROM {table}") == [(1,)], table
    assert rows_of(tmp_path / "s", "SELECT count(*) FROM calls") == [(3,)]


def test_metrics_are_flat_numbers() -> None:
    values = {"a": 1, "b": {"c": 2.5, "d": {"e": True}}, "nan": float("nan"), "none": None, "text": "x"}
    assert dict(flat(values)) == {"a": 1.0, "b/c": 2.5, "b/d/e": 1.0, "nan": None}


def test_what_is_no_store_and_what_is_of_later_is_refused(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("not a database, but long enough to be taken for one" * 20)
    with pytest.raises(StoreError, match="is no run store"):
        Store(tmp_path / "text")
    with Store(tmp_path / "s") as store:
        store.connection.execute(f"PRAGMA user_version = {FORMAT + 1}")
    with pytest.raises(StoreError, match="update lego_verl"):
        Store(tmp_path / "s")


def test_the_columns_are_those_of_the_schema(tmp_path: Path) -> None:
    with Store(tmp_path / "s") as store:
        names = {
            table: [row[1] for row in store.connection.execute(f"PRAGMA table_info({table})")]
            for table in ("calls", "segments", "behaviour", "group_sums", "step_sums")
        }
    assert names["calls"][1:] == list(CALL_COLUMNS)
    assert names["segments"][1:] == list(SEGMENT_COLUMNS)
    assert set(names["behaviour"]) == {"trial_id", *rows().behaviour}
    assert set(BEHAVIOUR) == set(names["behaviour"]) - {"trial_id", "last_act"}
    assert set(BEHAVIOUR) <= set(names["group_sums"]) & set(names["step_sums"])


def test_a_writer_says_once_that_it_cannot_and_goes_on(tmp_path: Path) -> None:
    said: list[str] = []
    now = [0.0]
    folder = tmp_path / "run"
    keeper = StoreWriter(folder / "store.sqlite", say=said.append, clock=lambda: now[0])
    began = time.monotonic()
    for _ in range(50):  # there is no such folder
        assert not keeper.write(lambda store: store.event("x"))
    assert time.monotonic() - began < 5
    assert len(said) == 1
    assert "RUN STORE" in said[0]
    assert keeper.lost == 50
    folder.mkdir()
    assert not keeper.write(lambda store: store.event("x"))  # not tried again at once
    now[0] = 11.0
    assert keeper.write(lambda store: store.event("x"))
    assert len(said) == 2
    assert "51 records are missing" in said[1]
    with Store(folder / "store.sqlite") as store:
        assert store.meta(LOST) == "51"


def test_a_writer_does_not_wait_for_a_lock_that_is_never_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("lego_verl.monitor.store_writer._BUSY_SECONDS", 0.2)
    path, said = tmp_path / "store.sqlite", list[str]()
    keeper = StoreWriter(path, say=said.append)
    assert keeper.write(lambda store: store.event("x"))
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        assert not any(keeper.write(lambda store: store.event("x")) for _ in range(100))
        assert time.monotonic() - began < 5
        other.execute("ROLLBACK")
    assert "locked" in said[0]


def test_the_ledger_writes_what_it_is_told(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    ledger = RunLedger(str(run.events), store=str(run.store))
    for trial, outcome in (("a-0", Outcome.SOLVED), ("a-1", Outcome.UNSOLVED), ("b-0", Outcome.SOLVED)):
        ledger.started(1, "train", trial, trial[0], 1)
        ledger.finished(1, "train", record(trial, outcome, task=trial[0], group=trial[0]), rows())
    ledger.started(1, "train", "c-0", "c", 1)
    ledger.retried(1, "train", "c-0", "sandbox_lost", "gone")
    ledger.started(1, "train", "c-0", "c", 2)
    ledger.finished(1, "train", record("c-0", Outcome.SANDBOX_FAILED, task="c", group="c", attempts=2))
    run.metrics.write_text('{"step":1,"seconds":3.5}\n')
    ledger.close(1, "train", min_group=2)
    ledger.measured(1, {"actor/entropy": 0.5})
    trials = rows_of(run.store, "SELECT trial, trained, why_not, trained_step FROM trials ORDER BY trial")
    assert trials == [
        ("a-0", 1, None, 1),
        ("a-1", 1, None, 1),
        ("b-0", 0, "small_group", 1),
        ("c-0", 0, "sandbox_failed", 1),
    ]
    assert rows_of(run.store, "SELECT name, value FROM metrics WHERE name NOT LIKE 'alerts/%'") == [
        ("actor/entropy", 0.5),
        ("seconds", 3.5),
    ]
    kinds = [json.loads(line)["event"] for line in run.events.read_text().splitlines()]
    assert [kind for (kind,) in rows_of(run.store, "SELECT kind FROM events ORDER BY id")] == kinds
    assert rows_of(run.store, "SELECT sum(trials), sum(trained) FROM step_sums") == [(4, 2)]

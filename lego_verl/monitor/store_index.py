"""Fills a store from a run's files: of a run that had none, or where the store was not written for a while.

``events.jsonl`` says which trials there are and what split they are of, each trial's folder what became of it,
``metrics.jsonl`` and ``heldout.jsonl`` the numbers of the steps. Whatever is there is written again: the result is the
same however often.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lego_verl.capture.record import RecordingError, read_recording
from lego_verl.monitor.run_folder import RunFolder, read_lines
from lego_verl.monitor.store import Store
from lego_verl.monitor.store_rows import TrialRows, rows_of_recording
from lego_verl.monitor.store_writer import LOST
from lego_verl.trial.outcome import Treatment

_READ = "read_bytes/"
"""Keys in ``meta``: how much of a file is in the store."""


@dataclass
class Indexed:
    """What was added."""

    trials: int = 0
    metrics: int = 0
    unreadable: int = 0
    """Trials whose calls could not be read; their records are in."""


def needs_index(run: RunFolder) -> bool:
    """Whether the run's files hold trials that the store does not: it is missing, is behind, or lost records."""
    if not run.events.exists():
        return False
    if not run.store.exists():
        return True
    with Store(run.store) as store:
        if int(store.meta(LOST) or 0):
            return True
        known = store.connection.execute("SELECT count(*) FROM trials WHERE state = 'finished'").fetchone()[0]
    with run.events.open("rb") as lines:
        return known < sum(b'"event":"finished"' in line for line in lines)


def index_run(run: RunFolder, advance: Callable[[int, int], None] = lambda done, of: None) -> Indexed:
    """Write all that the run's files hold and its store does not.

    Args:
        advance: told how many trials are done, of how many.

    Raises:
        StoreError, sqlite3.Error: when the store cannot be written.
    """
    done = Indexed()
    with Store(run.store) as store:
        known = {
            (step, split, trial)
            for step, split, trial in store.connection.execute(
                "SELECT t.step, t.split, t.trial FROM trials t WHERE t.state = 'finished' AND (t.calls = 0 OR EXISTS "
                "(SELECT 1 FROM calls c WHERE c.trial_id = t.id))"
            )
        }
        finished = _index_events(store, run)
        for number, (key, event) in enumerate(finished.items()):
            if key not in known:
                _index_trial(store, run, key, event, done)
            advance(number + 1, len(finished))
        _close_steps(store, run)
        done.metrics = catch_up(run, store)
        store.make_all_sums()
        store.set_meta(LOST, 0)
    return done


def bring_up_to_date(run: RunFolder, advance: Callable[[int, int], None] = lambda done, of: None) -> None:
    """See that a run's store holds what its files do, whether there is none yet, it is behind, or only lacks new lines.
    A run in which nothing has happened has none after it, either.

    Args:
        advance: as of ``index_run``.
    """
    if needs_index(run):
        index_run(run, advance)
    elif run.store.exists():
        with Store(run.store) as store:
            catch_up(run, store)


def catch_up(run: RunFolder, store: Store) -> int:
    """Write the lines of ``metrics.jsonl`` and ``heldout.jsonl`` that are new; how many. Cheap: a look at two sizes."""
    count = 0
    for path, split in ((run.metrics, "train"), (run.heldout, "heldout")):
        size = path.stat().st_size if path.exists() else 0
        seen = int(store.meta(_READ + path.name) or 0)
        if size == seen:
            continue
        offset = seen if size > seen else 0  # a resumed run wrote it anew
        for line, end in _new_lines(path, offset):
            store.metrics(int(line.get("step", 0)), line, split)
            count, offset = count + 1, end
        store.set_meta(_READ + path.name, offset)
    return count


def _new_lines(path: Path, offset: int) -> Iterator[tuple[dict[str, Any], int]]:
    with path.open("rb") as stream:
        stream.seek(offset)
        for line in stream:
            if not line.endswith(b"\n"):
                return  # still being written
            offset += len(line)
            try:
                yield json.loads(line), offset
            except ValueError:
                continue  # cut where the disk was full


_Key = tuple[int, str, str]


_FROM_FILE = ("started", "retried", "refilled", "finished", "broken", "alert")


def _index_events(store: Store, run: RunFolder) -> dict[_Key, Mapping[str, Any]]:
    """Write the events anew, and return those that end a trial, by step, split and trial."""
    finished: dict[_Key, Mapping[str, Any]] = {}
    event: Mapping[str, Any]
    rows: list[tuple[Any, ...]] = []
    starts: dict[_Key, Mapping[str, Any]] = {}
    retried: dict[_Key, list[Mapping[str, Any]]] = {}
    for event in read_lines(run.events):
        kind, key = str(event.get("event")), (int(event["step"]), str(event["split"]), str(event.get("trial")))
        if kind == "finished":
            finished[key] = event
        elif kind == "started":
            starts[key] = event
        elif kind == "retried":
            retried.setdefault(key, []).append(event)
        rest = {name: value for name, value in event.items() if name not in ("t", "event", "step", "split", "trial")}
        rows.append((event.get("t", 0.0), kind, key[0], key[1], event.get("trial"), json.dumps(rest)))
    with store.transaction() as db:
        db.execute(f"DELETE FROM events WHERE kind IN ({', '.join('?' * len(_FROM_FILE))})", _FROM_FILE)
        db.executemany("INSERT INTO events (t, kind, step, split, trial, data) VALUES (?, ?, ?, ?, ?, ?)", rows)
    for key, event in starts.items():
        step, split, trial = key
        begun = store.connection.execute(
            "SELECT started FROM trials WHERE step = ? AND split = ? AND trial = ?", key
        ).fetchone()
        if begun is None or begun[0] is None:
            store.started(step, split, trial, str(event["task"]), int(event.get("attempt", 1)), t=event.get("t"))
    for (step, split, trial), failed in retried.items():
        for number, event in enumerate(failed, 1):
            store.retried(step, split, trial, str(event["outcome"]), event.get("error"), attempt=number)
    return finished


def _index_trial(store: Store, run: RunFolder, key: _Key, event: Mapping[str, Any], done: Indexed) -> None:
    step, split, trial = key
    folder = run.trial(step, trial)
    record: Any = dict(event)
    rows: TrialRows | None = None
    try:
        record = json.loads((folder / "trial.json").read_text())
        rows = read_rows(folder)
    except (OSError, ValueError) as error:
        # The event alone knows the outcome, the reward and the seconds.
        done.unreadable += not isinstance(error, FileNotFoundError)
    store.finished(step, split, {**record, "trial": trial}, rows, t=event.get("t"))
    done.trials += 1


def read_rows(folder: Path) -> TrialRows | None:
    """The rows of a trial's folder; None where it has no recording.

    Raises:
        RecordingError: when it has one that cannot be read.
    """
    if not (folder / "calls.jsonl").exists():
        return None
    patch = folder / "patch.diff"
    try:
        return rows_of_recording(read_recording(folder), patch.read_bytes() if patch.exists() else b"")
    except IndexError as error:
        raise RecordingError(f"{folder} holds a recording that is not whole: {error}") from error


def _close_steps(store: Store, run: RunFolder) -> None:
    """Say which trials of finished steps were trained, as the run chose them."""
    closed = {int(line["step"]) for line in read_lines(run.metrics)}
    smallest = smallest_group(run)
    undecided = store.connection.execute(
        "SELECT DISTINCT step FROM trials WHERE split = 'train' AND trained IS NULL ORDER BY step"
    ).fetchall()
    for (step,) in undecided:
        if step in closed:
            why = why_not_trained(store, step, smallest)
            names = store.connection.execute("SELECT trial FROM trials WHERE step = ? AND split = 'train'", (step,))
            store.closed(step, "train", [name for (name,) in names if name not in why], why)


def why_not_trained(store: Store, step: int, smallest: int) -> dict[str, str]:
    """The trials of a step that are not trained, each with the reason, by the ledger's rule."""
    trials = store.connection.execute(
        "SELECT trial, group_id, outcome, treatment FROM trials WHERE step = ? AND split = 'train'", (step,)
    ).fetchall()
    left: dict[str, list[str]] = {}
    why: dict[str, str] = {}
    for trial, group, outcome, treatment in trials:
        if outcome is None or treatment == str(Treatment.DROP):
            why[trial] = outcome or "pending"
        else:
            left.setdefault(group, []).append(trial)
    for members in left.values():
        if len(members) < smallest:
            why.update(dict.fromkeys(members, "small_group"))
    return why


def smallest_group(run: RunFolder) -> int:
    """``lego.trial.min_group`` of the run's recipe; 1 without one."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        return int(OmegaConf.select(OmegaConf.load(run.recipe), "lego.trial.min_group") or 1)
    except (OSError, OmegaConfBaseException):
        return 1

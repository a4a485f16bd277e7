"""What only a clock shows, watched by the command that a person started, while its run trains."""

from __future__ import annotations

import contextlib
import shutil
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lego_verl.monitor import queries
from lego_verl.monitor.alerts import BY_CLOCK, AlertBook, Finding, Watched, open_alerts
from lego_verl.monitor.alerts.clock import FREE, disk, silence
from lego_verl.monitor.kept_lines import KeptLines
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.monitor.store_writer import StoreWriter


def by_clock(run: RunFolder, watched: Watched, *, now: float, alive: bool, since: float = 0.0) -> dict[str, Finding]:
    """What a clock shows of a run now, by the name of the alert.

    Args:
        alive: whether it is running: one that has ended may be silent.
        since: when it was started, this time, where that is known.
    """
    settings, seen = watched.settings, {}
    history: dict[int, float] = {}
    step_seconds: float | None = None
    quiet: Finding | None = None
    with contextlib.suppress(sqlite3.Error), queries.read_store(run.store) as db:  # none yet, or none to be read
        curves = queries.curves(db, (FREE, "seconds"))
        history = {step: value for step, value in curves.get(FREE, [])[-20:] if value is not None}
        recent = sorted(value for _, value in curves.get("seconds", [])[-9:] if value is not None)
        step_seconds = recent[len(recent) // 2] if recent else None
        if alive and settings.silence.enabled:
            quiet = silence(db, settings.silence, now=now, since=since)
    if quiet is not None:
        seen["silence"] = quiet
    if settings.disk.enabled:
        with contextlib.suppress(OSError):
            usage, newest = shutil.disk_usage(run.path), _newest_checkpoint(run.checkpoints)
            full = disk(
                settings.disk,
                free=usage.free,
                total=usage.total,
                checkpoint=newest,
                history=history,
                step_seconds=step_seconds,
            )
            if full is not None:
                seen["disk"] = full
    return seen


class ClockWatch:
    """Looks every so often, and tells what is new: in the run's events and its store, as other alerts.

    Args:
        clock: seconds since 1970.
    """

    def __init__(self, run: RunFolder, *, every: float = 15.0, clock: Callable[[], float] = time.time) -> None:
        self._run, self._every, self._clock = run, every, clock
        self._watched: Watched | None = None
        self._book: AlertBook | None = None
        self._events, self._store = KeptLines(run.events), StoreWriter(run.store)
        self._looked = float("-inf")
        self._since = clock()

    def look(self, step: int) -> list[dict[str, Any]]:
        """What is new since the last look, as an event's data.

        Args:
            step: the one that is being worked on.
        """
        now = self._clock()
        if now - self._looked < self._every:
            return []
        self._looked = now
        self._watched = self._watched or Watched.of(self._run.recipe)
        self._book = self._book or AlertBook(self._run.name, self._open())
        seen = by_clock(self._run, self._watched, now=now, alive=True, since=self._since)
        news = self._book.take(step, seen, BY_CLOCK)
        for each in news:
            self._events.append({"t": now, "event": "alert", "step": step, "split": "train", **each})
            if self._run.store.exists():  # the ledger makes it
                self._store.write(lambda store, each=each: store.event("alert", step, "train", t=now, **each))  # type: ignore[misc]
        return news

    def _open(self) -> dict[str, int]:
        """Those that an earlier start of the run left open."""
        with contextlib.suppress(sqlite3.Error), queries.read_store(self._run.store) as db:
            return {each["name"]: int(each["step"] or 0) for each in open_alerts(db) if each.get("name") in BY_CLOCK}
        return {}

    def close(self) -> None:
        self._store.close()


def _newest_checkpoint(folder: Path) -> int:
    """Its size in bytes; 0 where there is none."""
    steps = [path for path in folder.glob("global_step_*") if path.is_dir()]
    if not steps:
        return 0
    newest = max(steps, key=lambda path: path.stat().st_mtime)
    return sum(path.stat().st_size for path in newest.rglob("*") if path.is_file())

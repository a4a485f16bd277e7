"""What a page that is open is told when its run goes on."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson

from lego_verl.dashboard.indexing import Indexer
from lego_verl.monitor.queries.read import one
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.training_process import run_scratches

LOOK_SECONDS = 0.5
BEAT_SECONDS = 10.0
"""A page that hears nothing for much longer says that it is not connected."""


class Alive:
    """Which runs are trained on this machine; asks the system at most every few seconds."""

    def __init__(self, seconds: float = 5.0) -> None:
        self._seconds, self._asked = seconds, float("-inf")
        self._alive: set[Path] = set()
        self._lock = threading.Lock()

    def __call__(self, run: RunFolder) -> bool:
        with self._lock:
            if time.monotonic() - self._asked > self._seconds:
                self._alive = {Path(each.run).resolve() for each in run_scratches() if each.alive and each.run}
                self._asked = time.monotonic()
            return run.path in self._alive


class Watch:
    """One page's look at a run. ``look`` blocks (milliseconds): call it in a thread, one at a time."""

    def __init__(self, run: RunFolder, indexer: Indexer, alive: Alive) -> None:
        self._run, self._indexer, self._alive = run, indexer, alive
        self._db: sqlite3.Connection | None = None
        self._seen: tuple[Any, ...] = ()
        self._looking = threading.Lock()

    def look(self) -> tuple[bool, dict[str, Any]]:
        """Whether anything changed since the last look, and how it stands: ``step`` that is done, newest ``event``,
        trials ``running``, ``alive``, and the ``store``'s progress."""
        with self._looking:
            return self._look()

    def _look(self) -> tuple[bool, dict[str, Any]]:
        self._indexer.catch_up(self._run)
        told: dict[str, Any] = {"alive": self._alive(self._run), "store": self._indexer.progress(self._run).as_dict()}
        version: Any = None
        try:
            version, state = self._read()
            told |= state
        except sqlite3.Error:  # not there yet, or replaced: the next look opens it anew
            self._close()
        seen = (version, told["alive"], *told["store"].values())
        changed, self._seen = seen != self._seen, seen
        return changed, told

    def _read(self) -> tuple[int, dict[str, Any]]:
        if self._db is None:
            path = self._run.store.as_posix().replace("?", "%3f").replace("#", "%23")
            self._db = sqlite3.connect(f"file:{path}?mode=ro", uri=True, check_same_thread=False)
        version = int(one(self._db, "PRAGMA data_version"))
        return version, standing(self._db)

    def close(self) -> None:
        with self._looking:  # a page that goes away does not stop a look
            self._close()

    def _close(self) -> None:
        if self._db is not None:
            self._db.close()
            self._db = None


def standing(db: sqlite3.Connection) -> dict[str, Any]:
    """How far a run is: the ``step`` that is done, the newest ``event``, and how many trials are ``running``."""
    return {
        "step": one(db, "SELECT max(step) FROM metrics WHERE name = 'seconds' AND split = 'train'"),
        "event": one(db, "SELECT max(id) FROM events"),
        "running": one(db, "SELECT count(*) FROM trials WHERE state = 'running'"),
    }


async def follow(watch: Watch, ending: threading.Event) -> AsyncIterator[bytes]:
    """Server-sent events: ``change`` with how the run stands, ``beat`` where nothing did. For as long as it is read,
    and the server is not ``ending``."""
    beaten = 0.0
    try:
        yield b"retry: 2000\n\n"
        while not ending.is_set():
            changed, told = await asyncio.to_thread(watch.look)
            if changed or time.monotonic() - beaten > BEAT_SECONDS:
                beaten = time.monotonic()
                yield b"event: %s\ndata: %s\n\n" % (b"change" if changed else b"beat", orjson.dumps(told))
            await asyncio.sleep(LOOK_SECONDS)
    finally:
        await asyncio.shield(asyncio.to_thread(watch.close))

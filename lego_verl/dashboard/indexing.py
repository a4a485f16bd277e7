"""Stores that are missing or behind are brought up to date in one thread, while the page shows how far it is."""

from __future__ import annotations

import contextlib
import sqlite3
import threading
import time
from collections import deque
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from lego_verl.monitor.run_folder import RunFolder
from lego_verl.monitor.store import Store, StoreError
from lego_verl.monitor.store_index import catch_up, index_run, needs_index

_AGAIN_SECONDS = 2.0
"""A trial that ends just now is in one file and not yet in the other: only who is behind for longer is behind."""


@dataclass
class Progress:
    """How far a run's store is."""

    state: Literal["waiting", "indexing", "ready", "failed"] = "waiting"
    done: int = 0
    of: int = 0
    error: str = ""

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


class Indexer:
    """One thread that writes stores; the only writer of this process but ``catch_up``."""

    def __init__(self) -> None:
        self._progress: dict[Path, Progress] = {}
        self._waiting: deque[RunFolder] = deque()
        self._changed = threading.Condition()
        self._catching_up = threading.Lock()
        self._sizes: dict[Path, tuple[int, int]] = {}
        self._thread: threading.Thread | None = None

    def want(self, run: RunFolder, *, first: bool = False) -> Progress:
        """See that a run is indexed once; ``first``: before the others that wait."""
        with self._changed:
            if run.path not in self._progress:
                self._progress[run.path] = Progress()
                self._waiting.append(run)
            elif first and run in self._waiting and self._waiting[0] != run:
                self._waiting.remove(run)
                self._waiting.appendleft(run)
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="indexer", daemon=True)
                self._thread.start()
            self._changed.notify()
            return self._progress[run.path]

    def progress(self, run: RunFolder) -> Progress:
        return self._progress.get(run.path, Progress())

    def catch_up(self, run: RunFolder) -> None:
        """Take in new lines of ``metrics.jsonl``: a look at two file sizes where there are none."""
        if self.progress(run).state != "ready" or not run.store.exists():
            return
        sizes = tuple(path.stat().st_size if path.exists() else 0 for path in (run.metrics, run.heldout))
        with self._catching_up:
            if self._sizes.get(run.path) == sizes:
                return
            # A store that cannot be written is shown as it is.
            with contextlib.suppress(StoreError, sqlite3.Error, OSError), Store(run.store, timeout=2.0) as store:
                catch_up(run, store)
            self._sizes[run.path] = (sizes[0], sizes[1])

    def _work(self) -> None:
        while True:
            with self._changed:
                while not self._waiting:
                    self._changed.wait()
                run = self._waiting.popleft()
                progress = self._progress[run.path]
            try:
                self._index(run, progress)
            except (StoreError, sqlite3.Error, OSError, ValueError) as error:
                progress.state, progress.error = "failed", f"the store of {run.name} cannot be written: {error}"

    def _index(self, run: RunFolder, progress: Progress) -> None:
        def advance(done: int, of: int) -> None:
            progress.done, progress.of = done, of

        behind = needs_index(run)
        if behind and run.store.exists():
            time.sleep(_AGAIN_SECONDS)
            behind = needs_index(run)
        if behind:
            progress.state = "indexing"
            index_run(run, advance)
        progress.state = "ready"
        self.catch_up(run)

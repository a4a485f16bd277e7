"""Writes to the store from a process that must go on whatever becomes of it, and says so loudly when it cannot."""

from __future__ import annotations

import sqlite3
import sys
import time
from collections.abc import Callable
from pathlib import Path

from lego_verl.monitor.store import Store, StoreError

_BUSY_SECONDS = 5.0
_PAUSE_SECONDS = 10.0
"""Between two tries while it cannot be written: a lock that is never given up must not hold up a run."""
LOST = "lost_records"
"""Key in ``meta``: how many records the writer could not write. They are in the run's files, and indexing them again
(``python -m lego_verl.status RUN``) makes the store whole."""


class StoreWriter:
    """Opens the store at its first use, and again after a fault.

    Args:
        path: None: nothing is written.
        say: takes a line for a person.
        clock: seconds, of which only differences count.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        say: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.path = path
        self.trouble = ""
        """Why nothing is written now; empty when it is."""
        self.lost = 0
        """Records that could not be written since the store was last made whole."""
        self._say, self._clock = say or _to_stderr, clock
        self._store: Store | None = None
        self._not_before = float("-inf")

    def write(self, what: Callable[[Store], None]) -> bool:
        """Write one record; whether it was written. Never raises for the store's sake."""
        if self.path is None:
            return False
        if self.trouble and self._clock() < self._not_before:
            self.lost += 1
            return False
        try:
            store = self._store = self._store or Store(self.path, timeout=_BUSY_SECONDS)
            what(store)
            if self.trouble:
                self._recovered(store)
            return True
        except (sqlite3.Error, OSError, StoreError) as error:
            self._failed(self.path, error)
            return False

    def close(self) -> None:
        if self._store is not None:
            self._store.close()
        self._store = None

    def _failed(self, path: Path, error: Exception) -> None:
        self.lost += 1
        if not self.trouble:
            self._say(
                f"RUN STORE: {path} cannot be written: {error}. Training goes on without it; the records are "
                f"in the run's files. Make room, then: python -m lego_verl.status {path.parent}"
            )
        self.trouble = str(error)
        self._not_before = self._clock() + _PAUSE_SECONDS
        try:
            self.close()
        except sqlite3.Error:
            self._store = None

    def _recovered(self, store: Store) -> None:
        before = int(store.meta(LOST) or 0)
        store.set_meta(LOST, before + self.lost)
        self._say(
            f"RUN STORE: {store.path} is written again; {self.lost} records are missing in it. "
            f"To add them: python -m lego_verl.status {store.path.parent}"
        )
        self.trouble, self.lost = "", 0


def _to_stderr(line: str) -> None:
    print(f"lego_verl: {line}", file=sys.stderr, flush=True)

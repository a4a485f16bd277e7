"""JSON-lines files of a run that must go on whatever becomes of its disk: what cannot be written waits in memory."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lego_verl.monitor.run_folder import append_line

_MOST = 50_000
"""Records that wait, at most; beyond it the newest are lost, and counted."""


class KeptLines:
    """Appends records to one file. It never raises for the disk's sake: it says once that it cannot write, keeps what
    waits in order, and writes it when there is room.

    Args:
        say: takes a line for a person.
    """

    def __init__(self, path: Path, *, say: Callable[[str], None] | None = None, most: int = _MOST) -> None:
        self.path, self._most = path, most
        self.lost = 0
        self._say = say or _to_stderr
        self._waiting: deque[Mapping[str, Any]] = deque()
        self._torn = False

    @property
    def waiting(self) -> int:
        """Records that could not be written yet."""
        return len(self._waiting)

    def append(self, record: Mapping[str, Any]) -> bool:
        """Write a record, after all that wait; whether it was written."""
        stuck = bool(self._waiting)
        if len(self._waiting) < self._most:
            self._waiting.append(record)
        else:
            self.lost += 1
        try:
            while self._waiting:
                append_line(self.path, self._waiting[0], new_line=self._torn)
                self._torn = False
                self._waiting.popleft()
        except OSError as error:
            self._torn = True  # a part of the line may be there
            if not stuck:
                self._say(
                    f"RUN FOLDER: {self.path} cannot be written: {error.strerror or error}. The run goes on; what is "
                    "to be written waits in memory. Make room"
                )
            return False
        if stuck:
            lost = f"; {self.lost} records are lost" if self.lost else ""
            self._say(f"RUN FOLDER: {self.path} is written again{lost}")
            self.lost = 0
        return True


def _to_stderr(line: str) -> None:
    print(f"lego_verl: {line}", file=sys.stderr, flush=True)

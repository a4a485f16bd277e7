"""What monitoring costs, so that every run shows it."""

from __future__ import annotations

import time
from typing import Any


class Spent:
    """Sums the wall time spent within it. A context; within itself it counts once."""

    def __init__(self) -> None:
        self._seconds, self._depth, self._since = 0.0, 0, 0.0

    def __enter__(self) -> Spent:
        if self._depth == 0:
            self._since = time.perf_counter()
        self._depth += 1
        return self

    def __exit__(self, *_: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._seconds += time.perf_counter() - self._since

    def add(self, seconds: float) -> None:
        self._seconds += seconds

    def take(self) -> float:
        """Seconds since it was last asked."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds

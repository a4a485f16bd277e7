"""What monitoring costs, so that every run shows it."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any


class Spent:
    """Sums the time spent within it. A context of one thread; within itself it counts once.

    Args:
        clock: seconds. Wall time where a step waits for it; ``time.thread_time`` where others have the processor
            meanwhile, and only what it takes from them is a cost.
    """

    def __init__(self, clock: Callable[[], float] = time.perf_counter) -> None:
        self._clock = clock
        self._seconds, self._depth, self._since = 0.0, 0, 0.0

    def __enter__(self) -> Spent:
        if self._depth == 0:
            self._since = self._clock()
        self._depth += 1
        return self

    def __exit__(self, *_: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._seconds += self._clock() - self._since

    def take(self) -> float:
        """Seconds since it was last asked."""
        seconds, self._seconds = self._seconds, 0.0
        return seconds

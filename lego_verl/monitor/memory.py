"""How much memory a run takes of its machine, at most."""

from __future__ import annotations

import psutil


class PeakMemory:
    """The largest drop of the machine's available memory since it was made: of everything the run started, and of
    whatever else began meanwhile. Pages that its processes share count once."""

    def __init__(self) -> None:
        self._before = psutil.virtual_memory().available
        self.peak = 0
        """Bytes."""

    def sample(self) -> None:
        self.peak = max(self.peak, self._before - psutil.virtual_memory().available)

"""Which trials that are dropped get another one in their place: those without which their group would be too small.

All trials of a group run at the same time in one worker, so the decision needs no waiting: who is dropped while
enough others are left goes; who is not is replaced, before the step's batch is made. The replacement is a trial
of its own, submitted and accounted for like any other.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from lego_verl.trial.outcome import Outcome, Treatment
from lego_verl.trial.record import FinishedTrial

_IN_VAIN = frozenset({Outcome.IMAGE_MISSING})
"""Of the task, not of the trial: another one would end in the same way."""


@dataclass
class _Group:
    gone: int = 0
    refills: int = 0


class Refills:
    """What is known of the groups that have lost a trial.

    Args:
        min_group: trials that a group must keep.
        most: further trials that one group may be given; 0: none is replaced, and a group that is too small is dropped.
    """

    def __init__(self, min_group: int, most: int) -> None:
        self._min_group, self._most = min_group, most
        self._groups: dict[str, _Group] = {}

    def replaces(self, group: str, size: int, outcome: Outcome) -> bool:
        """A trial of a group that began with ``size`` of them is dropped: whether another is to run in its place."""
        known = self._groups.setdefault(group, _Group())
        enough = size - known.gone - 1 >= self._min_group
        if enough or known.refills >= self._most or outcome in _IN_VAIN:
            known.gone += 1
            return False
        known.refills += 1
        return True


async def run_refilled(
    run: Callable[[str], Awaitable[FinishedTrial]],
    name: str,
    replaces: Callable[[FinishedTrial, str], Awaitable[bool]],
) -> FinishedTrial:
    """Run a trial, and another in its place for as long as one is dropped and ``replaces`` says so; the last one.

    ``run`` gets a trial's name: ``name``, then ``name-r1``, ``name-r2``, …. ``replaces`` gets the trial that was
    dropped and the name of the one that would come.
    """
    finished, number = await run(name), 1
    while finished.record.treatment is Treatment.DROP and await replaces(finished, f"{name}-r{number}"):
        finished, number = await run(f"{name}-r{number}"), number + 1
    return finished

"""Running a trial again, by its outcome: faults of infrastructure only, a few times, after growing pauses."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from lego_verl.trial.outcome import Outcome
from lego_verl.trial.record import FinishedTrial

GRADER = frozenset({Outcome.GRADER_FAILED, Outcome.GRADER_TIMEOUT})
"""Retried where they arise, on the same patch; the trial itself is whole."""


@dataclass(frozen=True)
class RetryPolicy:
    """How often and how soon to try again. Delays in seconds."""

    retries: int = 2
    first_delay: float = 0.5
    factor: float = 2.0
    max_delay: float = 30.0
    machine: float = 10.0
    """How many times longer the pauses are where the machine was at fault: a daemon may be starting again."""

    def again(self, outcome: Outcome, attempt: int, *, machine: bool = False) -> float | None:
        """Seconds to wait before the next attempt after attempt number ``attempt`` (from 1); None: no more.

        ``machine``: it was at fault, whatever the outcome says.
        """
        if not outcome.retried or attempt > self.retries:
            return None
        first = self.first_delay * (self.machine if machine or outcome.of_the_machine else 1.0)
        return min(first * self.factor ** (attempt - 1), self.max_delay)


OnRetry = Callable[[int, FinishedTrial], Awaitable[None] | None]


async def run_retried(
    run: Callable[[int], Awaitable[FinishedTrial]], policy: RetryPolicy, *, on_retry: OnRetry | None = None
) -> FinishedTrial:
    """Run a trial until it ends with something that another attempt would not mend.

    ``run`` gets the attempt's number, from 1. ``on_retry`` is told of every attempt that is not the last
    one. The record of the last attempt carries their number.
    """
    attempt = 1
    while True:
        finished = await run(attempt)
        outcome = finished.record.outcome
        delay = None if outcome in GRADER else policy.again(outcome, attempt)
        if delay is None:
            return replace(finished, record=replace(finished.record, attempts=attempt))
        if on_retry is not None:
            told = on_retry(attempt, finished)
            if inspect.isawaitable(told):
                await told
        await asyncio.sleep(delay)
        attempt += 1

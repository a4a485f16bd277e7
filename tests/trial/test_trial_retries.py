"""Which trials are run again, how often, and after how long."""

from __future__ import annotations

import asyncio
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_verl.trial.outcome import Outcome
from lego_verl.trial.record import FinishedTrial, TrialRecord
from lego_verl.trial.retries import GRADER, RetryPolicy, run_retried

QUICK = RetryPolicy(retries=2, first_delay=0.01)


def ended(outcome: Outcome) -> FinishedTrial:
    return FinishedTrial(TrialRecord("t", "task", outcome))


async def attempts(*outcomes: Outcome, policy: RetryPolicy = QUICK) -> tuple[FinishedTrial, list[int], list[int]]:
    """The last trial; the attempts that ran; the attempts that were told of as run again."""
    ran: list[int] = []
    told: list[int] = []

    async def run(attempt: int) -> FinishedTrial:
        ran.append(attempt)
        return ended(outcomes[attempt - 1])

    finished = await run_retried(run, policy, on_retry=lambda attempt, trial: told.append(attempt))
    return finished, ran, told


async def test_a_fault_of_infrastructure_is_tried_again() -> None:
    finished, ran, told = await attempts(Outcome.SANDBOX_LOST, Outcome.SOLVED)
    assert (finished.record.outcome, finished.record.attempts) == (Outcome.SOLVED, 2)
    assert (ran, told) == ([1, 2], [1])


async def test_not_for_ever() -> None:
    finished, ran, told = await attempts(*[Outcome.HARNESS_FAILED] * 9)
    assert (finished.record.outcome, finished.record.attempts) == (Outcome.HARNESS_FAILED, 3)
    assert (ran, told) == ([1, 2, 3], [1, 2])


@pytest.mark.parametrize("outcome", [o for o in Outcome if not o.retried or o in GRADER])
async def test_what_is_the_policys_data_or_has_been_retried_already_is_not(outcome: Outcome) -> None:
    finished, ran, told = await attempts(outcome)
    assert (finished.record.outcome, ran, told) == (outcome, [1], [])


async def test_the_pauses_grow_and_the_told_may_be_a_coroutine() -> None:
    times: list[float] = []

    async def run(attempt: int) -> FinishedTrial:
        times.append(time.monotonic())
        return ended(Outcome.OUT_OF_MEMORY)

    async def told(attempt: int, trial: FinishedTrial) -> None:
        await asyncio.sleep(0)

    await run_retried(run, RetryPolicy(retries=2, first_delay=0.1, factor=2.0), on_retry=told)
    assert times[1] - times[0] >= 0.1
    assert times[2] - times[1] >= 0.2


@given(st.sampled_from(list(Outcome)), st.integers(1, 50), st.integers(0, 20))
def test_delays_are_bounded_and_so_is_their_number(outcome: Outcome, attempt: int, retries: int) -> None:
    policy = RetryPolicy(retries=retries, first_delay=1.0, factor=3.0, max_delay=7.0)
    delay = policy.again(outcome, attempt)
    assert (delay is not None) == (outcome.retried and attempt <= retries)
    assert delay is None or 1.0 <= delay <= 7.0


def test_the_machine_is_given_more_time() -> None:
    policy = RetryPolicy(retries=3, first_delay=0.5, max_delay=30.0)
    assert [policy.again(Outcome.HARNESS_FAILED, attempt) for attempt in (1, 2, 3, 4)] == [0.5, 1.0, 2.0, None]
    assert [policy.again(Outcome.SANDBOX_LOST, attempt) for attempt in (1, 2, 3, 4)] == [5.0, 10.0, 20.0, None]
    assert policy.again(Outcome.GRADER_FAILED, 1) == 0.5
    assert policy.again(Outcome.GRADER_FAILED, 1, machine=True) == 5.0
    assert policy.again(Outcome.SOLVED, 1, machine=True) is None

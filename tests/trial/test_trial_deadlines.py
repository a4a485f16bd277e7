"""Every wait of a trial ends, and says what it was for; and a policy that hangs is no agent that ran out of time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest
from trial_helpers import MEND, Watched, trial

from lego_verl.deadline import deadline
from lego_verl.tasks.task import Task
from lego_verl.trial.bench import Bench
from lego_verl.trial.limits import TrialLimits
from lego_verl.trial.outcome import Outcome
from lego_verl.trial.retries import RetryPolicy
from sandbox.sandbox import Sandbox, SandboxSpec

Script = Callable[[str], Bench]


def hangs(bench: Bench, on: str) -> Bench:
    """The bench with a backend on which the sandboxes of these trials never start."""
    assert isinstance(bench.backend, Watched)
    start = bench.backend.start

    async def start_or_hang(spec: SandboxSpec) -> Sandbox:
        if spec.trial == on:
            await asyncio.Event().wait()
        return await start(spec)

    bench.backend.start = start_or_hang  # type: ignore[method-assign]
    return bench


async def test_a_sandbox_that_does_not_start(script: Script, task: Task) -> None:
    bench = replace(hangs(script("ask"), "it"), start_seconds=0.2)
    record = (await trial(bench, "it", task)).record
    assert (record.outcome, record.reward) == (Outcome.SANDBOX_FAILED, None)
    assert record.error == "waited 0.2 s for the sandbox of trial it to start"


async def test_a_sandbox_that_does_not_start_for_the_grading(script: Script, task: Task) -> None:
    bench = replace(
        hangs(script(f"ask; {MEND}"), "it-grade"),
        start_seconds=5.0,
        regrading=RetryPolicy(retries=1, first_delay=0.01),
    )
    record = (await trial(bench, "it", task)).record
    assert (record.outcome, record.reward) == (Outcome.GRADER_FAILED, None)
    assert record.error == "the patch could not be graded: waited 5 s for the sandbox of trial it-grade to start"


async def test_a_base_tree_that_another_trial_never_finishes(script: Script, task: Task) -> None:
    bench = replace(script("ask"), start_seconds=2.0)
    lock = bench.baselines._recording[task.digest] = asyncio.Lock()
    async with lock:
        record = (await trial(bench, "it", task)).record
    assert (record.outcome, record.reward) == (Outcome.SANDBOX_FAILED, None)
    assert record.error == "waited 2 s for trial it's base tree to be recorded"


async def test_what_no_other_deadline_ends(script: Script, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(TrialLimits, "attempt_seconds", lambda *_, **__: 0.3)
    record = (await trial(hangs(script("ask"), "it"), "it", task)).record
    assert (record.outcome, record.reward) == (Outcome.SANDBOX_FAILED, None)
    assert record.error == "waited 0.3 s for trial it to end; it was in its phase start"


def test_an_attempt_may_take_what_its_parts_may_take() -> None:
    limits = TrialLimits(seconds=1000.0, grading_seconds=100.0)
    assert limits.attempt_seconds(10.0, gradings=3) >= 10 + 1000 + 3 * (10 + 100)


async def test_a_policy_that_hangs(script: Script, task: Task) -> None:
    finished = await trial(script("ask"), "it", task, {"text": "late", "delay": 3600.0}, limits={"seconds": 6.0})
    assert finished.record.outcome is Outcome.POLICY_FAILED
    assert finished.record.error == "waited 3 s for the policy to answer session it"
    assert (finished.record.reward, finished.record.calls) == (None, 0)


async def test_a_reply_that_is_not_there_when_the_time_is_over(script: Script, task: Task) -> None:
    """What came before it was sampled and is whole: the agent has run out of time."""
    late = {"text": "late", "delay": 3600.0}
    bench = script(f"ask; {MEND}; sleep 4; ask another")
    finished = await trial(bench, "it", task, {"text": "first"}, late, limits={"seconds": 6.0})
    assert (finished.record.outcome, finished.record.reward) == (Outcome.TIME_LIMIT, 1.0)
    assert finished.record.calls == len(finished.segments) == 1


async def test_a_first_prompt_that_does_not_fit(script: Script, task: Task) -> None:
    record = (await trial(script("ask"), "it", task, limits={"context": 8})).record
    assert (record.outcome, record.reward) == (Outcome.HARNESS_FAILED, None)
    assert "first prompt does not fit into the policy's context" in record.error


async def test_a_deadline_names_what_it_is_for_and_is_no_other() -> None:
    with pytest.raises(ValueError, match=r"^waited 0\.01 s for rain$"):
        async with deadline(0.01, "rain", ValueError):
            await asyncio.sleep(60)
    with pytest.raises(TimeoutError, match="its own"):
        async with deadline(60.0, "rain", ValueError):
            raise TimeoutError("its own")
    async with deadline(None, "rain", ValueError):
        await asyncio.sleep(0)

"""Grades patches again, each in a fresh sandbox as its trial did, and compares the verdicts."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from lego_verl.config import LegoConfig
from lego_verl.monitor.run_folder import RunFolder, append_line
from lego_verl.regrade.find import TaskFinder, read_record, step_of
from lego_verl.tasks.task import Task, TaskError
from lego_verl.trial.from_recipe import sandbox_limits
from lego_verl.trial.judge import judge
from lego_verl.trial.outcome import Outcome, Treatment
from lego_verl.trial.record import TrialRecord
from lego_verl.trial.retries import RetryPolicy
from sandbox.hardening import PLANTED
from sandbox.sandbox import Backend, Image

FILE = "regrade.jsonl"
_LOG_CHARACTERS = 4000
_OF_THE_VERDICT = frozenset(
    {Outcome.SOLVED, Outcome.UNSOLVED, Outcome.TAMPERED, Outcome.GRADER_FAILED, Outcome.GRADER_TIMEOUT}
)
"""Outcomes that the grading gave. The others say what ended the agent, and stay whatever its patch earns."""


class Comparison(StrEnum):
    SAME = "same"
    CHANGED = "changed"
    NO_VERDICT = "no_verdict"
    """It could not be graded now: a fault of infrastructure, or a task or patch that is gone."""
    NOTHING = "nothing_to_grade"
    """Its agent left nothing because the trial was dropped before its patch was taken."""


@dataclass(frozen=True)
class Regraded:
    """One trial, then and now."""

    step: int
    trial: str
    task: str
    comparison: Comparison
    outcome_then: Outcome
    reward_then: float | None
    outcome: Outcome | None = None
    """None where there is no verdict now."""
    reward: float | None = None
    error: str = ""
    task_changed: bool = False
    """Its task has other files now than when the trial ran."""
    seconds: float = 0.0
    log: str = ""
    """The end of what the verifier printed."""

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        now = None if self.outcome is None else str(self.outcome)
        words = {"comparison": str(self.comparison), "outcome_then": str(self.outcome_then), "outcome": now}
        return {**asdict(self), **words}


async def regrade(
    run: RunFolder,
    folders: Sequence[Path],
    *,
    backend: Backend,
    lego: LegoConfig,
    tasks: TaskFinder,
    jobs: int,
    retries: RetryPolicy | None = None,
    advance: Callable[[], None] = lambda: None,
) -> list[Regraded]:
    """Grade the trials in ``folders`` again, ``jobs`` at once, and append each to the run's ``regrade.jsonl``.

    When this returns, also by a cancellation, no sandbox of it is left.

    Args:
        lego: the recipe's limits.
        retries: how often a patch is graded again where there is no verdict.
        advance: called after each.

    Raises:
        NoRun: for a folder that holds no trial's record.
        OSError: when ``regrade.jsonl`` cannot be written.
    """
    slots = asyncio.Semaphore(jobs)
    label = f"regrade-{os.getpid()}"

    async def one(folder: Path) -> Regraded:
        async with slots:
            result = await _regrade_one(
                folder, backend=backend, lego=lego, tasks=tasks, run=label, retries=retries or RetryPolicy()
            )
            append_line(run.path / FILE, {"t": time.time(), "sandbox": backend.name, **result.as_dict()})
        advance()
        return result

    working = [asyncio.ensure_future(one(folder)) for folder in folders]
    try:
        return await asyncio.gather(*working)
    finally:
        for each in working:
            each.cancel()
        await asyncio.gather(*working, return_exceptions=True)
        await backend.reap(label)


async def _regrade_one(
    folder: Path, *, backend: Backend, lego: LegoConfig, tasks: TaskFinder, run: str, retries: RetryPolicy
) -> Regraded:
    record, began = read_record(folder), time.monotonic()
    digest = str(record.versions.get("task", ""))

    def result(comparison: Comparison, **more: Any) -> Regraded:
        spent = round(time.monotonic() - began, 3)
        then = (step_of(folder), folder.name, record.task, comparison, record.outcome, record.reward)
        return Regraded(*then, seconds=spent, **more)

    try:
        patch = (folder / "patch.diff").read_bytes()
        if any(sign.startswith(PLANTED) for sign in record.signs):  # of which a grading sees nothing
            same = (record.outcome, record.reward) == (Outcome.TAMPERED, 0.0)
            comparison = Comparison.SAME if same else Comparison.CHANGED
            return result(comparison, outcome=Outcome.TAMPERED, reward=0.0, error="; ".join(record.signs))
        if not patch.strip():
            return _of_empty(record, result)
        task = tasks.find(record.task, digest)
        control = tasks.is_controlled(task)
    except FileNotFoundError:
        return result(Comparison.NO_VERDICT, error="its patch.diff is not there")
    except (OSError, TaskError) as error:
        return result(Comparison.NO_VERDICT, error=str(error))
    judgement = await judge(
        backend,
        Image(task.environment, task.image, task.workdir),
        patch,
        task.tests,
        seconds=min(lego.trial.grading_seconds, task.verifier_timeout),
        limits=sandbox_limits(lego),
        run=run,
        trial=f"{step_of(folder)}-{folder.name}",
        retries=retries,
        control=control,
    )
    told: dict[str, Any] = {"task_changed": _changed(task, digest), "log": judgement.log[-_LOG_CHARACTERS:]}
    if judgement.outcome.treatment is Treatment.DROP:
        return result(Comparison.NO_VERDICT, error=judgement.error, **told)
    stays = record.outcome not in _OF_THE_VERDICT and judgement.outcome.treatment is Treatment.TRAIN
    outcome = record.outcome if stays else judgement.outcome
    same = (outcome, judgement.reward) == (record.outcome, record.reward)
    return result(
        Comparison.SAME if same else Comparison.CHANGED,
        outcome=outcome,
        reward=judgement.reward,
        error=judgement.error,
        **told,
    )


def _of_empty(record: TrialRecord, result: Callable[..., Regraded]) -> Regraded:
    """The empty patch earns 0: that is checked of every task before it is used."""
    if record.treatment is Treatment.DROP:
        return result(Comparison.NOTHING)
    if record.reward == 0.0:
        return result(Comparison.SAME, outcome=record.outcome, reward=0.0)
    outcome = Outcome.NO_PATCH if record.outcome in _OF_THE_VERDICT else record.outcome
    return result(Comparison.CHANGED, outcome=outcome, reward=0.0, error="its patch is empty")


def _changed(task: Task, digest: str) -> bool:
    return bool(digest) and task.digest != digest

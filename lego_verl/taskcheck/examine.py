"""Whether a task is fit to be learned from: not only that its solution solves it, but that nothing else does."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from lego_verl.taskcheck.hunks import takings
from lego_verl.taskcheck.try_cheater import try_script
from lego_verl.tasks.cheaters import Cheater
from lego_verl.tasks.check import reference_patch
from lego_verl.tasks.task import Task, TaskError
from lego_verl.trial.bench import Baselines
from sandbox.grader import Verdict, grade
from sandbox.sandbox import Backend, Image, Limits, SandboxError

_LEAST_SECONDS = 5.0
_TIMES_REFERENCE = 5.0
"""A cheater's verifier gets this many times what the reference patch took: those that hang would take all there is."""


@dataclass
class Examination:
    """What was found out about one task."""

    task: str
    digest: str
    folder: str
    nop: list[float | None] = field(default_factory=list)
    """Rewards of the empty patch, one a repetition; None where there was no verdict."""
    reference: list[float | None] = field(default_factory=list)
    control: bool = False
    """Rewards are to be held against control experiments: the reference patch has met them (``sandbox.control``)."""
    cheaters: dict[str, str] = field(default_factory=dict)
    """Outcomes by name."""
    fooled: list[str] = field(default_factory=list)
    """Cheaters that gained something, with what."""
    unguarded: list[str] = field(default_factory=list)
    """Parts of the reference patch without which the reward is 1 as well."""
    seconds: float | None = None
    """Of grading the reference patch, at most."""
    memory_mb: float | None = None
    problems: list[str] = field(default_factory=list)

    @property
    def flaky(self) -> bool:
        return len(set(self.nop)) > 1 or len(set(self.reference)) > 1

    @property
    def usable(self) -> bool:
        return not self.problems

    def as_dict(self) -> dict[str, Any]:
        return {**asdict(self), "flaky": self.flaky, "usable": self.usable}


@dataclass(frozen=True)
class Examiner:
    """How tasks are examined; one for all of them."""

    backend: Backend
    limits: Limits
    run: str
    cheaters: Sequence[Cheater]
    repeat: int = 3
    hunks: int = 20
    """Parts of a reference patch that are taken back, at most."""
    agent_seconds: float = 60.0
    grading_seconds: float = 300.0

    async def examine(self, task: Task) -> Examination:
        """Everything about one task. What is wrong with it is in ``problems``; nothing is raised for it."""
        found = Examination(task.name, task.digest, str(task.folder))
        try:
            patch = reference_patch(task)
            await self._repeat(task, patch, found)
            # What its own solution does not solve, or doing nothing does, needs no further look.
            if not found.problems:
                found.control = await self._has_control(task, patch)
                await self._hunks(task, patch, found)
                await self._cheat(task, found)
        except (TaskError, SandboxError, OSError) as error:
            found.problems.append(str(error))
        return found

    async def _repeat(self, task: Task, patch: bytes, found: Examination) -> None:
        for number in range(self.repeat):
            nop = await self._grade(task, b"", f"nop-{number}")
            verdict = await self._grade(task, patch, f"reference-{number}", measure=True)
            found.nop.append(nop.reward)
            found.reference.append(verdict.reward)
            found.seconds = round(max(found.seconds or 0.0, verdict.seconds), 3)
            if verdict.memory_mb is not None:
                found.memory_mb = round(max(found.memory_mb or 0.0, verdict.memory_mb), 1)
            if verdict.reward != 1 and len(set(found.reference)) == 1 and number == 0:
                last = (verdict.output.strip().splitlines() or ["it printed nothing"])[-1]
                found.problems.append(f"the reference patch earns {_shown(verdict.reward)}, it must earn 1: {last}")
            if nop.reward != 0 and number == 0:
                found.problems.append(f"the empty patch earns {_shown(nop.reward)}, it must earn 0")
        if found.flaky:
            rewards = {"reference": found.reference, "empty": found.nop}
            told = [
                f"the {name} patch earns {', '.join(map(_shown, of))}"
                for name, of in rewards.items()
                if len(set(of)) > 1
            ]
            found.problems = [f"flaky: {' and '.join(told)}"]

    async def _has_control(self, task: Task, patch: bytes) -> bool:
        verdict = await self._grade(task, patch, "control", control=True)
        return verdict.reward == 1 and verdict.controlled

    async def _hunks(self, task: Task, patch: bytes, found: Examination) -> None:
        for number, taking in enumerate(takings(patch)[: self.hunks]):
            verdict = await self._grade(task, taking.patch, f"hunk-{number}")
            if verdict.reward == 1:
                found.unguarded.append(taking.where)
        if found.unguarded:
            found.problems.append(f"no test guards {', '.join(found.unguarded)} of the reference patch")

    async def _cheat(self, task: Task, found: Examination) -> None:
        baselines = Baselines()
        seconds = min(self._seconds(task), max(_LEAST_SECONDS, _TIMES_REFERENCE * (found.seconds or 0.0)))
        for cheater in self.cheaters:
            attempt = await try_script(
                self.backend,
                task,
                cheater.name,
                cheater.script,
                limits=self.limits,
                run=self.run,
                seconds=self.agent_seconds,
                grading_seconds=seconds,
                baselines=baselines,
                control=found.control,
            )
            found.cheaters[cheater.name] = str(attempt.outcome)
            if attempt.fooled:
                gained = f"reached {', '.join(attempt.reached)}" if attempt.reached else f"earned {attempt.reward:g}"
                found.fooled.append(f"{cheater.name} {gained}")
        if found.fooled:
            found.problems.append(f"cheaters gained: {'; '.join(found.fooled)}")

    async def _grade(
        self, task: Task, patch: bytes, name: str, *, measure: bool = False, control: bool = False
    ) -> Verdict:
        return await grade(
            self.backend,
            Image(task.environment, task.image, task.workdir),
            patch,
            task.tests,
            deadline=self._seconds(task),
            limits=self.limits,
            run=self.run,
            trial=f"{task.name}-{name}",
            measure=measure,
            control=control,
        )

    def _seconds(self, task: Task) -> float:
        return min(self.grading_seconds, task.verifier_timeout)


def _shown(reward: float | None) -> str:
    return "nothing" if reward is None else f"{reward:g}"

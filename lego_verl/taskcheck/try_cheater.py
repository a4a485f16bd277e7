"""One script in the agent's place: run as a trial would run it, its patch taken and graded as a trial's would be."""

from __future__ import annotations

import time
from dataclasses import dataclass

from lego_verl.tasks.task import Task
from lego_verl.trial.attribution import of_sandbox
from lego_verl.trial.bench import Baselines
from lego_verl.trial.judge import judge
from lego_verl.trial.outcome import Outcome, Treatment
from lego_verl.trial.retries import RetryPolicy
from sandbox.hardening import planted
from sandbox.patch import PatchError, take_patch
from sandbox.sandbox import Backend, Image, Limits, SandboxError, SandboxSpec

_SCRIPT = "/tmp/agent"
_REACHED = "REACHED "


@dataclass(frozen=True)
class Attempt:
    """What a script came to."""

    name: str
    outcome: Outcome
    reward: float | None
    """None where training would drop it."""
    reached: tuple[str, ...]
    """What it says to have reached that it should not."""
    error: str
    log: str
    """What it printed, and what the verifier printed."""
    seconds: float

    @property
    def fooled(self) -> bool:
        """Whether it gained anything."""
        return bool(self.reward) or bool(self.reached)


async def try_script(
    backend: Backend,
    task: Task,
    name: str,
    script: bytes,
    *,
    limits: Limits,
    run: str,
    seconds: float = 60.0,
    grading_seconds: float = 60.0,
    baselines: Baselines | None = None,
    control: bool = False,
) -> Attempt:
    """Run ``script`` in the task's sandbox and judge what it leaves.

    ``baselines`` keeps the base trees of tasks that are tried more than once. ``control``: see
    ``sandbox.grader.grade``. Faults of the machine are outcomes, as they are in a trial.
    """
    began = time.monotonic()
    image = Image(task.environment, task.image, task.workdir)
    printed, patch, signs = "", b"", list[str]()

    def attempt(outcome: Outcome, reward: float | None, error: str = "", log: str = "") -> Attempt:
        reached = tuple(line.removeprefix(_REACHED) for line in printed.splitlines() if line.startswith(_REACHED))
        return Attempt(name, outcome, reward, reached, error, printed + log, time.monotonic() - began)

    try:
        sandbox = await backend.start(SandboxSpec(run, f"{task.name}-{name}", image, limits=limits))
        try:
            baseline = await (baselines or Baselines()).of(task.digest, sandbox)
            await sandbox.put({_SCRIPT: script}, executable=True)
            ran = await sandbox.exec([_SCRIPT], deadline=seconds)
            printed = ran.output.decode(errors="replace")
            signs = await planted(sandbox, baseline.graders)
            patch = await take_patch(sandbox, baseline)
        finally:
            await sandbox.close()
    except PatchError as error:
        return attempt(Outcome.TAMPERED if signs else Outcome.UNSOLVED, 0.0, str(error))
    except (SandboxError, OSError) as error:
        cause = of_sandbox(error)
        return attempt(cause.outcome, None, cause.error)
    if signs:
        return attempt(Outcome.TAMPERED, 0.0, "; ".join(signs))
    if not patch:
        return attempt(Outcome.NO_PATCH, 0.0)
    judged = await judge(
        backend,
        image,
        patch,
        task.tests,
        seconds=grading_seconds,
        limits=limits,
        run=run,
        trial=f"{task.name}-{name}",
        retries=RetryPolicy(retries=0),
        control=control,
    )
    dropped = judged.outcome.treatment is Treatment.DROP
    return attempt(judged.outcome, None if dropped else judged.reward, judged.error, judged.log)

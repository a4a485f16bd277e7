"""The verdict on what an agent left, and its one attribution: graded, attacked, or no verdict at all."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from pathlib import Path

from lego_verl.trial.outcome import Outcome
from lego_verl.trial.retries import RetryPolicy
from sandbox.grader import Verdict, grade
from sandbox.sandbox import Backend, Image, Limits, SandboxError


@dataclass(frozen=True)
class Judgement:
    """``solved`` or ``unsolved``, ``tampered``, or ``grader_failed`` or ``grader_timeout``."""

    outcome: Outcome
    reward: float = 0.0
    log: str = ""
    error: str = ""
    signs: tuple[str, ...] = ()
    """What of the patch looked like an attack on the grader."""


async def judge(
    backend: Backend,
    image: Image,
    patch: bytes,
    tests: Path,
    *,
    seconds: float,
    limits: Limits,
    run: str,
    trial: str,
    retries: RetryPolicy,
    control: bool = False,
) -> Judgement:
    """Grade a patch in a fresh sandbox, again where there was no verdict: the patch is whole, whatever failed.

    ``control``: see ``sandbox.grader.grade``.
    """
    attempt = 1
    while True:
        machine = False
        try:
            verdict = await grade(
                *(backend, image, patch, tests),
                deadline=seconds,
                limits=limits,
                run=run,
                trial=trial,
                control=control,
            )
        except (SandboxError, OSError) as error:
            machine = True
            judgement = Judgement(Outcome.GRADER_FAILED, error=f"the patch could not be graded: {error}")
        else:
            judgement = _read(verdict, seconds)
        delay = retries.again(judgement.outcome, attempt, machine=machine)
        if delay is None:
            return judgement
        await asyncio.sleep(delay)
        attempt += 1


def _read(verdict: Verdict, seconds: float) -> Judgement:
    last = (verdict.output.strip().splitlines() or ["it printed nothing"])[-1]
    if verdict.status == "timeout":
        return Judgement(Outcome.GRADER_TIMEOUT, log=verdict.output, error=f"no verdict within {seconds:g} s: {last}")
    if verdict.status == "failed" or verdict.reward is None:
        return Judgement(Outcome.GRADER_FAILED, log=verdict.output, error=f"the verifier gave no verdict: {last}")
    if verdict.status == "tampered":
        return Judgement(Outcome.TAMPERED, log=verdict.output, error=last, signs=verdict.signs)
    outcome = Outcome.SOLVED if verdict.reward >= 1.0 else Outcome.UNSOLVED
    error = last if verdict.status == "patch_failed" else ""
    return Judgement(outcome, verdict.reward, verdict.output, error, verdict.signs)

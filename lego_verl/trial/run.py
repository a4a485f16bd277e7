"""One trial: sandbox ready -> harness running -> patch taken -> sandbox closed -> graded afresh -> outcome.

Whatever happens to a trial is in its record. Each boundary says once what escaped it (see
``attribution``), and nothing of a trial stays: its sandbox, session and socket are gone when this returns,
also when it is cancelled.
"""

from __future__ import annotations

import time

from lego_verl.capture.match import ReasoningPolicy
from lego_verl.capture.parser import ToolParser
from lego_verl.capture.render import Renderer
from lego_verl.capture.split import Split
from lego_verl.deadline import deadline
from lego_verl.policies.policy import ChatPolicy, Policy, RequestPolicy, Sampling
from lego_verl.proxy.budget import Budget
from lego_verl.proxy.session import Session
from lego_verl.tasks.task import Task
from lego_verl.trial.attribution import Attributed
from lego_verl.trial.bench import Bench
from lego_verl.trial.limits import TrialLimits
from lego_verl.trial.record import FinishedTrial
from lego_verl.trial.running import RunningTrial


async def run_trial(
    bench: Bench,
    *,
    trial: str,
    task: Task,
    policy: Policy | RequestPolicy | ChatPolicy,
    renderer: Renderer | None = None,
    parser: ToolParser | None = None,
    sampling: Sampling | None = None,
    limits: TrialLimits | None = None,
    reasoning: ReasoningPolicy = "keep",
    untrained: frozenset[Split] = frozenset({Split.SIDE_CALL}),
    group: str = "",
) -> FinishedTrial:
    """Run one attempt at a task.

    The outcome is ``solved`` or ``unsolved`` when the agent ended by itself and left something,
    ``no_patch`` when it submitted nothing, ``gave_up`` when it ended without submitting and without any
    change. When a limit ended it, the outcome names the limit, what it left is graded, and the reward is
    that verdict: so ``turn_limit`` with reward 1 is an agent that had mended the code and did not say so.
    A trial that is dropped has no reward at all.

    Args:
        trial: letters, digits, ``.``, ``_`` and ``-``; unique among the trials that run.
        untrained: calls that begin a segment for one of these reasons are answered and recorded, and not trained.
        renderer: with ``parser``, needed unless the policy is a ``ChatPolicy``.

    Raises:
        Nothing that happens to the trial. ``asyncio.CancelledError`` after everything is closed, and
        ``ValueError`` for arguments that do not fit together.
    """
    limits = limits or TrialLimits()
    session = Session(
        trial,
        policy,
        renderer=renderer,
        parser=parser,
        sampling=sampling,
        # The deadline of the harness's process is the limit in time; a session of its own would count the start, too.
        budget=Budget(
            turns=limits.turns,
            tokens=limits.tokens,
            context=limits.context,
            reply_seconds=limits.reply_share * min(limits.seconds, task.agent_timeout) + limits.pause_seconds,
        ),
        end_status=bench.adapter.end_status,
        reasoning=reasoning,
        untrained=untrained,
    )
    running = RunningTrial(bench, trial, task, limits, session)
    began = time.monotonic()
    async with bench.slots:
        running.seconds["queued"] = time.monotonic() - began
        try:
            async with deadline(bench.attempt_seconds(limits), f"trial {trial} to end", running.overdue):
                await running.work()
                await running.judge()
        except Attributed as cause:
            running.outcome, running.error = cause.outcome, cause.error
    return running.finished(group, time.monotonic() - began)

"""Runs the trials of an evaluation that have no verdict yet, as training runs its trials."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Sequence
from dataclasses import replace

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from harness_adapters.progress import build_with_progress
from harness_adapters.runtime import cache_folder
from lego_verl.evaluate.kept import STEP, read_records
from lego_verl.evaluate.plan import Planned
from lego_verl.evaluate.request import Evaluation
from lego_verl.monitor.run_folder import append_line
from lego_verl.proxy.server import ProxyServer
from lego_verl.run_tasks import check_all, with_images
from lego_verl.trial.bench import Bench
from lego_verl.trial.from_recipe import open_benches, sandbox_backend, trial_limits, untrained_splits
from lego_verl.trial.outcome import Treatment
from lego_verl.trial.record import FinishedTrial, TrialRecord, write_trial
from lego_verl.trial.retries import RetryPolicy, run_retried
from lego_verl.trial.run import run_trial
from sandbox.sandbox import Backend

CONTEXT = 1 << 17
"""Tokens of one call: what an endpoint's own context is, it says itself."""
_SPLIT = "heldout"


async def run_evaluation(evaluation: Evaluation, console: Console) -> None:
    """Run what is missing. Each trial's folder is written when it ends; nothing else of it stays.

    Raises:
        NoPolicy, NoTasks, TaskError, HarnessError, SandboxError: before the first trial, in one line.
        OSError: when a trial cannot be written.
    """
    lego, policy = evaluation.lego, evaluation.policy
    missing = to_run(evaluation)
    done = len(evaluation.planned) - len(missing)
    if done:
        console.print(f"{done} of {len(evaluation.planned)} trials have their verdict already")
    if not missing:
        return
    server = ProxyServer()
    label = f"evaluate-{os.getpid()}"
    backend: Backend | None = None
    try:
        await policy.check()
        backend = await sandbox_backend(lego)
        await backend.reap()  # what a killed one left
        cache = cache_folder(lego.run.cache)
        runtimes = {
            name: await build_with_progress(adapter.runtime, cache, console, share_usr=backend.shares_usr)
            for name, adapter in evaluation.adapters.items()
        }
        await _prepare_tasks(evaluation, backend, console)
        await server.start()
        benches = open_benches(lego, label, backend, server, evaluation.adapters, runtimes)
        await _Running(evaluation, benches, console).all(missing)
    finally:
        await policy.close()
        await server.stop()
        if backend is not None:
            await backend.reap(label)


def to_run(evaluation: Evaluation) -> list[Planned]:
    """The trials that have no verdict."""
    records = read_records(evaluation.run, evaluation.planned)
    graded = {name for name, record in records.items() if record.treatment is not Treatment.DROP}
    return [each for each in evaluation.planned if each.name not in graded]


async def _prepare_tasks(evaluation: Evaluation, backend: Backend, console: Console) -> None:
    """Images, and every task's own proof. A task whose image cannot be had stays in the plan: its trials were
    asked for, and end as ``image_missing``."""
    lego = evaluation.lego
    there, _ = await with_images(list(evaluation.tasks), [], backend, lego, console)
    if lego.tasks.check:
        await check_all(there, backend, lego, evaluation.run, console)


class _Running:
    """The trials that run, and a bar that says how far they are."""

    def __init__(self, evaluation: Evaluation, benches: dict[str, Bench], console: Console) -> None:
        self._evaluation, self._benches, self._console = evaluation, benches, console
        self._limits = evaluation.policy.limits(trial_limits(evaluation.lego, context=CONTEXT))
        self._solved = self._failed = self._infrastructure = 0

    async def all(self, missing: Sequence[Planned]) -> None:
        queue = list(reversed(missing))
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn())
        times = (TimeElapsedColumn(), TimeRemainingColumn())
        lines = not self._console.is_terminal
        with Progress(*columns, *times, console=self._console, transient=True, disable=lines) as progress:
            bar = progress.add_task(self._described(), total=len(missing))

            async def work() -> None:
                while queue:
                    planned = queue.pop()
                    record = await self._one(planned)
                    progress.update(bar, advance=1, description=self._described())
                    if lines:
                        done = self._solved + self._failed + self._infrastructure
                        self._console.print(f"{done}/{len(missing)}  {planned.name}: {record.outcome}", soft_wrap=True)

            slots = min(self._evaluation.lego.sandbox.slots, len(missing))
            # Whatever ends one ends all: by then every trial that ended is written.
            async with asyncio.TaskGroup() as group:
                for _ in range(slots):
                    group.create_task(work())

    def _described(self) -> str:
        return f"solved {self._solved}, failed {self._failed}, infrastructure {self._infrastructure}"

    async def _one(self, planned: Planned) -> TrialRecord:
        lego, run = self._evaluation.lego, self._evaluation.run
        bench, name = self._benches[planned.cell.harness], planned.name
        policy = self._evaluation.policy

        async def attempt(number: int) -> FinishedTrial:
            self._event("started", planned, attempt=number)
            return await run_trial(
                bench,
                trial=f"{name}-a{number}",
                task=planned.task,
                policy=policy.of(planned.task, bench.adapter.shell),
                renderer=policy.renderer,
                parser=policy.parser,
                sampling=self._evaluation.sampling,
                limits=replace(self._limits, turns=planned.cell.turns),
                reasoning=lego.capture.reasoning.value,
                untrained=untrained_splits(lego),
                group=f"{planned.cell.harness}-{planned.cell.turns}-{planned.task.name}",
            )

        def again(number: int, failed: FinishedTrial) -> None:
            self._event("retried", planned, outcome=str(failed.record.outcome), error=failed.record.error)

        finished = await run_retried(attempt, RetryPolicy(retries=lego.trial.retries), on_retry=again)
        record = replace(finished.record, trial=name)
        write_trial(run.trial(STEP, name), replace(finished, record=record))
        self._infrastructure += record.treatment is Treatment.DROP
        self._solved += (record.reward or 0.0) >= 1.0
        self._failed += record.treatment is not Treatment.DROP and (record.reward or 0.0) < 1.0
        told = ("outcome", "reward", "error", "attempts", "seconds", "sampled_tokens")
        self._event("finished", planned, **{key: record.as_dict()[key] for key in told})
        return record

    def _event(self, kind: str, planned: Planned, **values: object) -> None:
        where = {"t": time.time(), "event": kind, "step": STEP, "split": _SPLIT, "trial": planned.name}
        of = {"task": planned.task.name, "harness": planned.cell.harness, "turns": planned.cell.turns}
        append_line(self._evaluation.run.events, {**where, **of, **values})

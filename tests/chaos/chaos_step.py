"""One step of trials with faults, driven as verl's agent loop drives it: attempts, retries, the run's ledger."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from chaos_cases import Case, Fault, Group, Kind
from chaos_parts import Acting, Hook, Staged
from trial_helpers import PARSER, RENDERER, ScriptHarness

from lego_verl.tasks.task import Task
from lego_verl.trial.bench import Bench
from lego_verl.trial.limits import TrialLimits
from lego_verl.trial.outcome import Outcome
from lego_verl.trial.record import FinishedTrial
from lego_verl.trial.retries import RetryPolicy, run_retried
from lego_verl.trial.run import run_trial
from lego_verl.workers.run_ledger import RunLedger
from sandbox.local import LocalSandbox

RETRIES = RetryPolicy(retries=1, first_delay=0.05)


@dataclass
class Step:
    """What runs, and what came of it."""

    benches: Mapping[str, Bench]
    """By ``Group.where``."""
    mini: Bench | None
    tasks: Mapping[Kind, Task]
    ledger: RunLedger
    at_daemon: Mapping[str, Mapping[Fault, Hook]] = field(default_factory=dict)
    """By ``Group.where``: what a trial does that is there when its daemon is killed."""
    ends: dict[str, list[Outcome]] = field(default_factory=dict)
    """The outcomes of a trial's attempts."""
    finished: dict[str, FinishedTrial] = field(default_factory=dict)

    async def run(self, groups: Sequence[Group]) -> None:
        await asyncio.gather(*(self._trial(group, case) for group in groups for case in group.cases))

    async def _trial(self, group: Group, case: Case) -> None:
        task, bench = self.tasks[group.task], self.benches[group.where]
        if case.mini:
            assert self.mini is not None
            bench = self.mini
        else:
            bench = replace(bench, adapter=ScriptHarness(case.script))
        ends = self.ends[case.name] = []
        limits = TrialLimits(**{"turns": 9, "seconds": 180.0, "grading_seconds": 120.0, **case.limits})

        async def attempt(number: int) -> FinishedTrial:
            self.ledger.started(1, "train", case.name, task.name, number)
            trial = f"{case.name}-a{number}"
            hook = self._stage(group, case, trial, bench) if number == 1 or case.every else None
            if case.fault == "daemon_down" and hook is not None:
                await hook(trial)
                hook = None
            finished = await run_trial(
                bench,
                trial=trial,
                task=task,
                policy=Acting(case.replies(number), hook),
                renderer=RENDERER,
                parser=PARSER,
                limits=limits,
                group=group.name,
            )
            ends.append(finished.record.outcome)
            return finished

        def again(number: int, failed: FinishedTrial) -> None:
            self.ledger.retried(1, "train", case.name, str(failed.record.outcome), failed.record.error)

        finished = await run_retried(attempt, RETRIES, on_retry=again)
        finished = replace(finished, record=replace(finished.record, trial=case.name))
        self.ledger.finished(1, "train", finished.record.as_dict())
        self.finished[case.name] = finished

    def _stage(self, group: Group, case: Case, trial: str, bench: Bench) -> Hook | None:
        """What is to happen to an attempt while its first call waits for the answer."""
        backend = bench.backend
        assert isinstance(backend, Staged)

        async def kill(of: str) -> None:
            sandbox = backend.sandboxes[of]
            if isinstance(sandbox, LocalSandbox):
                sandbox._kill()
            else:
                await end_container(of, "kill")

        async def end_container(of: str, how: str, **options: Any) -> None:
            sandbox = backend.sandboxes[of]
            await sandbox._host.call(lambda api: getattr(api, how)(sandbox.name, **options))

        async def kill_grader(of: str) -> None:
            if case.every:
                backend.hooks[of] = kill_grader
            await kill(of)

        async def remove(of: str) -> None:
            await end_container(of, "remove_container", force=True)

        async def stop(of: str) -> None:
            await end_container(of, "stop", timeout=0)

        async def cut(of: str) -> None:
            server = bench.server._open[of].server
            assert server is not None
            for connection in server.connections:
                assert connection.transport is not None
                connection.transport.abort()

        async def close_link(of: str) -> None:
            listener = bench.server._open[of].listener
            assert listener is not None
            listener.close()

        if case.fault == "kill_grader":
            backend.hooks[f"{trial}-grade"] = kill_grader
            return None
        if case.fault == "daemon_grading":
            backend.hooks[f"{trial}-grade"] = self.at_daemon[group.where]["daemon_grading"]
            return None
        if case.fault in ("daemon", "daemon_down"):
            return self.at_daemon[group.where][case.fault]
        hooks: dict[Fault, Hook] = {"kill": kill, "stop": stop, "remove": remove, "cut": cut, "close_link": close_link}
        return hooks.get(case.fault)

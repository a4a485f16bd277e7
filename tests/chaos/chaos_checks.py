"""What must be so after a chaos run."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Sequence

from chaos_cases import Case, Group
from chaos_step import Step
from trial_helpers import sandboxes_of

from lego_verl.proxy.server import ProxyServer
from lego_verl.trial.outcome import Treatment
from lego_verl.workers.step_account import StepAccount
from sandbox.docker import DockerBackend
from sandbox.scratch import Scratch


def check_endings(step: Step, groups: Sequence[Group]) -> None:
    """Every attempt of every trial ended as it must, and only a verdict became a reward."""
    cases: list[Case] = [case for group in groups for case in group.cases]
    wrong = {}
    for case in cases:
        record = step.finished[case.name].record
        got = (tuple(step.ends[case.name]), record.reward)
        if got != (case.ends, case.reward) or not re.search(case.error, record.error):
            wrong[case.name] = (*got, record.error)
        assert (record.treatment is Treatment.DROP) == (record.reward is None)
        assert record.attempts == len(step.ends[case.name])
    assert wrong == {}


def check_ledger(account: StepAccount, groups: Sequence[Group]) -> None:
    account.check(min_trained=0.25)
    cases = [(group, case) for group in groups for case in group.cases]
    left = {group.name: sum(case.reward is not None for case in group.cases) for group in groups}
    trained = sum(count for count in left.values() if count >= 2)
    assert (account.submitted, account.pending) == (len(cases), 0)
    assert (account.trained, account.dropped) == (trained, len(cases) - trained)
    assert account.retried == sum(len(case.ends) - 1 for _, case in cases)
    assert account.small_groups == sum(count < 2 for count in left.values())
    rewards = {group.name: {case.reward for case in group.cases} - {None} for group in groups}
    assert account.zero_variance_groups == sum(len(rewards[name]) == 1 for name, count in left.items() if count >= 2)
    counted: dict[str, int] = {}
    for _, case in cases:
        counted[str(case.ends[-1])] = counted.get(str(case.ends[-1]), 0) + 1
    assert account.outcomes == counted


def check_nothing_left(run: str, server: ProxyServer, scratch: Scratch) -> None:
    probe = scratch.folder(run, "probe")
    assert sorted(path.name for path in probe.parent.iterdir() if path.name != "owner") == [probe.name]
    assert server._open == {}
    assert sandboxes_of(os.getpid()) == []
    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert [task.get_name() for task in others if not task.done()] == []


async def containers(url: str, run: str) -> list[str]:
    found = (
        await DockerBackend([url])
        .hosts[0]
        .call(lambda api: api.containers(all=True, filters={"label": f"lego.run={run}"}))
    )
    return [each["Names"][0] for each in found]

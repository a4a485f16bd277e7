"""The agent loop accounts for each of its trials, and puts another in the place of one that its group would miss."""

from __future__ import annotations

import asyncio
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from test_agent_loop_outputs import SEGMENT

from lego_verl.compose import compose_recipe
from lego_verl.config import typed
from lego_verl.trial.from_recipe import refills
from lego_verl.trial.limits import TrialLimits
from lego_verl.trial.outcome import Outcome, Treatment
from lego_verl.trial.record import FinishedTrial, TrialRecord
from lego_verl.workers import agent_loop
from lego_verl.workers.agent_loop import HarnessAgentLoop
from lego_verl.workers.run_ledger import RunLedger
from lego_verl.workers.step_account import StepAccount

PROOF = {
    **{"splits": {"first": 1}, "calls": 1, "segments": 1, "sampled_tokens": 3, "loss_tokens": 3},
    **{"provenance": 1.0, "context": 1.0},
}
SAMPLING = {"temperature": 1.0, "top_p": 1.0, "top_k": -1}


class Remote:
    """An actor's handle, without Ray."""

    def __init__(self, actor: object) -> None:
        self._actor = actor

    def __getattr__(self, name: str) -> Any:
        async def call(*arguments: Any) -> Any:
            return getattr(self._actor, name)(*arguments)

        return SimpleNamespace(remote=call)


async def group(
    monkeypatch: pytest.MonkeyPatch, folder: Path, ends: dict[str, Outcome], split: str, *overrides: str
) -> tuple[list[int], StepAccount]:
    """Run a group of three; how many outputs each gave verl, and the step's account. ``ends``: by trial."""
    config = compose_recipe(["monitor.keep_trials=false", "actor_rollout_ref.rollout.n=3", *overrides])
    lego, ledger = typed(config), RunLedger(str(folder / "events.jsonl"))
    host = SimpleNamespace(
        lego=lego, ledger=Remote(ledger), limits=TrialLimits(seconds=9.0), renderer=None, parser=None,
        refills=refills(lego), bench=lambda step, split, task: None,
    )  # fmt: skip

    async def host_of(*_: Any) -> Any:
        return host

    async def run_trial(bench: Any, *, trial: str, task: Any, group: str, **_: Any) -> FinishedTrial:
        await asyncio.sleep(0)
        name = trial.removeprefix("4-t-group-").rpartition("-a")[0]
        outcome = ends.get(name, Outcome.SOLVED)
        reward = None if outcome.treatment is Treatment.DROP else 1.0
        record = TrialRecord(trial, task.name, outcome, group=group, reward=reward, proof=PROOF, error="a reason")
        return FinishedTrial(record, (SEGMENT,))

    monkeypatch.setattr(agent_loop, "host_of", host_of)
    monkeypatch.setattr(agent_loop, "run_trial", run_trial)
    monkeypatch.setattr(agent_loop, "task_of", lambda folder: SimpleNamespace(name="t"))

    async def session(number: int) -> int:
        loop = object.__new__(HarnessAgentLoop)
        loop.config, loop.rollout_config = config, config.actor_rollout_ref.rollout
        loop.server_manager, loop.tokenizer = None, SimpleNamespace(eos_token_id=0)
        info = {"split": split, "task_folder": "t"}
        return len(await loop.run(SAMPLING, global_steps=4, uid="group", session_id=number, extra_info=info))

    counts = await asyncio.gather(*(session(number) for number in range(3)))
    return list(counts), StepAccount(**ledger.close(4, split, 2))


LOST = {"0": Outcome.POLICY_FAILED, "1": Outcome.POLICY_FAILED}


async def test_a_small_group_is_dropped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    counts, account = await group(monkeypatch, tmp_path, LOST, "train")
    assert counts == [0, 0, 1]
    assert (account.submitted, account.trained, account.dropped, account.small_groups) == (3, 0, 3, 1)
    assert account.dropped_why == {"policy_failed": 2, "small_group": 1}


async def test_a_small_group_is_refilled(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    counts, account = await group(monkeypatch, tmp_path, LOST, "train", "trial.small_group=refill")
    assert sorted(counts) == [0, 1, 1]
    assert (account.submitted, account.trained, account.dropped, account.refilled) == (4, 2, 2, 1)
    assert account.small_groups == 0
    account.check(min_trained=0.5)


async def test_no_more_than_it_may_have(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    ends = {name: Outcome.POLICY_FAILED for name in ("0", "1", *(f"{n}-r{k}" for n in (0, 1) for k in range(1, 9)))}
    recipe = ("trial.small_group=refill", "trial.refills=3")
    counts, account = await group(monkeypatch, tmp_path, ends, "train", *recipe)
    assert counts == [0, 0, 1]
    assert (account.submitted, account.trained, account.dropped, account.refilled) == (6, 0, 6, 3)


async def test_held_out_trials_are_not_replaced(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    counts, account = await group(monkeypatch, tmp_path, LOST, "heldout", "trial.small_group=refill")
    assert (counts, account.submitted) == ([0, 0, 1], 3)


async def test_a_ledger_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent_loop, "LEDGER_SECONDS", 0.01)
    with pytest.raises(agent_loop.LedgerError, match=r"waited 0\.01 s for the run's ledger to answer"):
        await agent_loop.told(asyncio.sleep(60))

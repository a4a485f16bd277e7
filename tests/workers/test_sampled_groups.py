"""What verl's sampler takes out of a step is accounted for, whichever of its reasons it has."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import transfer_queue as tq
from omegaconf import OmegaConf
from verl.trainer.ppo.v1 import get_trainer_cls
from verl.trainer.ppo.v1.replay_buffer import ReplayBufferAsync

from lego_verl.compose import compose_recipe
from lego_verl.config import typed
from lego_verl.trial.from_recipe import trial_limits
from lego_verl.trial.ledger import LedgerError
from lego_verl.trial.outcome import Outcome
from lego_verl.workers import trainer_async
from lego_verl.workers.run_ledger import RunLedger
from lego_verl.workers.sampled_groups import SampledGroups
from lego_verl.workers.step_account import StepAccount
from lego_verl.workers.trainer_async import HarnessAsyncTrainer


class Queue:
    """verl's queue, by its tags: prompts with a status and the step that they are of, and rows of theirs."""

    def __init__(self) -> None:
        self.train: dict[str, dict[str, Any]] = {}

    def prompt(self, group: str, status: str, step: int, rows: int = 0) -> None:
        self.train[group] = {"is_prompt": True, "status": status, "global_steps": step}
        self.train |= {f"{group}_{row}_0": {"status": "success"} for row in range(rows)}

    def kv_list(self, partition: str | None = None) -> dict[str, dict[str, dict[str, Any]]]:
        return {"train": {key: dict(tag) for key, tag in self.train.items()}}

    def kv_clear(self, keys: list[str], partition_id: str) -> None:
        for key in keys:
            self.train.pop(key, None)

    def kv_batch_put(self, keys: list[str], partition_id: str, tags: list[dict[str, Any]]) -> None:
        for key, tag in zip(keys, tags, strict=True):
            self.train.setdefault(key, {}).update(tag)


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Queue:
    queue = Queue()
    for name in ("kv_list", "kv_clear", "kv_batch_put"):
        monkeypatch.setattr(tq, name, getattr(queue, name))
    return queue


def buffer(refilled: list[int]) -> ReplayBufferAsync:
    return ReplayBufferAsync(
        trainer_mode="colocate_async",
        trainer_config=OmegaConf.create({}),
        max_off_policy_threshold=3,
        max_off_policy_strategy="drop",
        sampler_kwargs=OmegaConf.create({}),
        poll_interval=0.01,
        refill_fn=refilled.append,
    )


def test_what_is_sampled_and_what_is_taken_out_and_why(queue: Queue) -> None:
    refilled: list[int] = []
    sampler = buffer(refilled)
    groups = SampledGroups(sampler)
    queue.prompt("old", "finished", step=1, rows=2)
    queue.prompt("broken", "failure", step=4)
    for name in ("a", "b", "c"):
        queue.prompt(name, "finished", step=4, rows=2)
    queue.prompt("on its way", "running", step=5)
    batch, _ = sampler.sample(global_steps=5, partition_id="train", batch_size=2)
    sampled, evicted = groups.take()
    assert len(sampled) == 2
    assert {key.split("_")[0] for key in batch.keys} == set(sampled) <= {"a", "b", "c"}
    assert evicted == {"old": "group_stale", "broken": "group_failed"}
    assert refilled == [2]
    assert groups.take() == ([], {}), "told once"


def test_groups_without_variance_and_what_is_left_over_have_their_own_names() -> None:
    held: dict[str, Any] = {
        name: (lambda *_args, **_kwargs: None)
        for name in ("_select_prompt_uids", "_evict_terminal_groups", "_clear_groups")
    }
    sampler = SimpleNamespace(**held)
    groups = SampledGroups(sampler)
    sampler._evict_terminal_groups(1, "train", (set(), {"alike"}, set(), Counter()))
    sampler._evict_terminal_groups(1, "val", ({"not of training"}, set(), set(), Counter()))
    sampler._clear_groups("train", {"alike", "too many"})
    sampler._clear_groups("val", {"not of training"})
    assert groups.take()[1] == {"alike": "group_no_variance", "too many": "group_surplus"}


PROOF = {
    **{"splits": {"first": 1}, "calls": 1, "segments": 1, "sampled_tokens": 4, "loss_tokens": 4},
    **{"provenance": 1.0, "context": 1.0},
}


def ended(ledger: RunLedger, step: int, group: str, *rewards: float) -> None:
    for number, reward in enumerate(rewards):
        trial = f"{group}-{number}"
        ledger.started(step, "train", trial, "task", 1, group)
        ledger.finished(step, "train", {"trial": trial, "task": "task", "group": group, "outcome": str(Outcome.SOLVED),
                                        "reward": reward, "proof": PROOF})  # fmt: skip


@pytest.fixture
def ledger(tmp_path: Path) -> RunLedger:
    return RunLedger(str(tmp_path / "events.jsonl"))


def close(ledger: RunLedger, step: int, groups: list[str] | None, **more: Any) -> StepAccount:
    return StepAccount(**ledger.close(step, "train", 2, groups, **more))


def test_a_step_of_an_asynchronous_run_is_made_of_groups_whenever_they_began(ledger: RunLedger) -> None:
    ended(ledger, 1, "a", 1.0, 0.0)
    ended(ledger, 1, "b", 1.0, 1.0)
    ledger.started(2, "train", "c-0", "task", 1, "c")
    ended(ledger, 2, "d", 0.0, 1.0)
    first = close(ledger, 1, ["a"])
    first.check(min_trained=1.0)
    assert (first.submitted, first.trained, first.in_flight, first.groups) == (2, 2, 5, 1)
    second = close(ledger, 2, ["d", "b"])
    second.check(min_trained=1.0)
    assert (second.submitted, second.trained, second.in_flight) == (4, 4, 1)
    assert second.zero_variance_groups == 1
    assert second.solve_rate == 0.75


def test_a_group_that_is_taken_before_its_trials_ended_is_a_fault(ledger: RunLedger) -> None:
    ended(ledger, 1, "a", 1.0, 0.0)
    ledger.started(1, "train", "a-late", "task", 1, "a")
    ledger.broken(1, "train", "ValueError: of the agent loop")
    with pytest.raises(LedgerError, match=r"1 without an ending \(a-late\).*of the agent loop"):
        close(ledger, 3, ["a"]).check()


@pytest.mark.parametrize("groups", [["a"], None], ids=["asynchronous", "synchronous"])
def test_trials_of_groups_that_were_taken_out_are_dropped_for_its_reason(
    ledger: RunLedger, groups: list[str] | None
) -> None:
    ended(ledger, 1, "a", 1.0, 0.0)
    ended(ledger, 1, "alike", 1.0, 1.0)
    closed = close(ledger, 1, groups, evicted={"alike": "group_no_variance"})
    closed.check(min_trained=0.5)
    assert (closed.submitted, closed.trained, closed.dropped) == (4, 2, 2)
    assert closed.dropped_why == {"group_no_variance": 2}
    assert closed.evicted_groups == {"group_no_variance": 1}
    assert (closed.groups, closed.small_groups, closed.zero_variance_groups) == (1, 0, 0)
    assert closed.solve_rate == 0.75, "of all that were graded"
    assert closed.loss_tokens == 8, "of what is trained"


def test_what_is_waited_for_is_any_trial_of_an_asynchronous_run(tmp_path: Path) -> None:
    now = [0.0]
    ledger = RunLedger(str(tmp_path / "events.jsonl"), clock=lambda: now[0])
    ledger.started(1, "train", "early", "task", 1, "a")
    now[0] = 50.0
    assert ledger.overdue(2, "train", 40.0, False) == "", "nothing of step 2 has begun, and its wait only now"
    ledger.started(2, "train", "late", "task", 1, "b")
    now[0] = 80.0
    assert ledger.overdue(3, "train", 40.0, True) == ""
    now[0] = 100.0
    assert ledger.overdue(3, "train", 40.0, True) == ""  # the wait of step 3 began at 80
    now[0] = 121.0
    assert "0 of 2 trials have ended; waiting for early, late" in ledger.overdue(3, "train", 40.0, True)


def test_the_recipe_of_steps_that_overlap() -> None:
    config = compose_recipe(["+steps=overlapping"])
    mode = config.trainer.v1.trainer_mode
    assert mode == trainer_async.ASYNC_TRAINER_MODE
    assert get_trainer_cls(mode) is HarnessAsyncTrainer
    assert HarnessAsyncTrainer.steps_overlap
    still, moving = (trial_limits(typed(compose_recipe(given)), context=0) for given in ([], ["+steps=overlapping"]))
    # A trial's clocks go on while the policy is updated.
    assert (still.pause_seconds, moving.pause_seconds) == (0, 600)
    assert moving.attempt_seconds(300, 3) == still.attempt_seconds(300, 3) + 600


def test_after_a_resume_every_group_that_was_handed_out_runs_again(
    queue: Queue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """verl would keep what was finished, and the new run's ledger knows nothing of it."""
    queue.prompt("done", "finished", step=3, rows=2)
    queue.prompt("half", "running", step=4, rows=1)
    submitted: list[tuple[Any, int]] = []
    trainer = object.__new__(HarnessAsyncTrainer)
    trainer.trainer_mode, trainer.global_steps = "colocate_async", 5
    trainer.agent_loop_manager = SimpleNamespace(generate_sequences=lambda batch: submitted.append(batch))
    monkeypatch.setattr(tq, "kv_batch_get", lambda keys, partition_id: {"uid": keys}, raising=False)
    monkeypatch.setattr(
        "verl.trainer.ppo.v1.trainer_base.tu.assign_non_tensor_data",
        lambda batch, name, value: batch.update({name: value}),
    )
    assert trainer._reissue_inflight_prompts() == 2
    assert [(sorted(batch["uid"]), batch["global_steps"]) for batch in submitted] == [(["done", "half"], 5)]  # type: ignore[call-overload]
    assert {key: tag["status"] for key, tag in queue.train.items()} == {"done": "pending", "half": "pending"}

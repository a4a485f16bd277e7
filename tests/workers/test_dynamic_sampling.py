"""A step is filled up with groups that have an advantage, within bounds, and what was left out is accounted for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from omegaconf import OmegaConf
from verl.trainer.ppo.v1 import replay_buffer
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from lego_verl.trial.ledger import LedgerError
from lego_verl.workers.dynamic_sampling import (
    DynamicSampling,
    DynamicSamplingAsync,
    DynamicSamplingError,
    dynamic_sampling,
)
from lego_verl.workers.sampled_groups import FAILED, NO_VARIANCE, SURPLUS, SampledGroups
from lego_verl.workers.step_account import StepAccount

MIXED, SOLVED, FAILED_ALL = (1.0, 0.0, 1.0), (1.0, 1.0, 1.0), (0.0, 0.0, 0.0)


class Queue:
    """TransferQueue's calls that the replay buffer makes. Groups are finished as soon as they are asked for."""

    def __init__(self, groups: Sequence[Sequence[float]]) -> None:
        self.coming = list(groups)
        self.asked = 0
        self.tags: dict[str, dict[str, Any]] = {}
        self.rewards: dict[str, float] = {}

    def submit(self, count: int) -> None:
        for _ in range(count):
            group, rewards = f"group{self.asked}", self.coming[self.asked]
            self.asked += 1
            self.tags[group] = {"is_prompt": True, "status": "finished", "global_steps": 1}
            for trial, reward in enumerate(rewards):
                self.rewards[f"{group}_{trial}_0"] = reward
                self.tags[f"{group}_{trial}_0"] = {"status": "success"}

    def kv_list(self) -> dict[str, Any]:
        return {"train": {key: dict(tag) for key, tag in self.tags.items()}}

    def kv_batch_get(self, keys: Sequence[str], partition_id: str, select_fields: Sequence[str]) -> Any:
        assert list(select_fields) == ["rm_scores"]
        return {"rm_scores": [torch.tensor([0.0, self.rewards[key]]) for key in keys]}

    def kv_clear(self, partition_id: str, keys: Sequence[str]) -> None:
        for key in keys:
            self.tags.pop(key, None)


def sampler(
    monkeypatch: pytest.MonkeyPatch,
    groups: Sequence[Sequence[float]],
    *,
    batch: int = 2,
    batches: int = 10,
    mode: str = "sync",
) -> tuple[Any, Queue]:
    queue = Queue(groups)
    for name in ("kv_list", "kv_batch_get", "kv_clear"):
        monkeypatch.setattr(replay_buffer.tq, name, getattr(queue, name))
    settings = {
        "filter_groups": {"metric": "reward", "max_num_gen_batches": batches, "max_inflight_gen_batches": 1},
        "train_batch_size": batch,
        "min_group": 2,
    }
    made = dynamic_sampling(
        trainer_mode=mode,
        trainer_config=OmegaConf.create({}),
        max_off_policy_threshold=8,
        max_off_policy_strategy="drop",
        sampler_kwargs=OmegaConf.create(settings),
        refill_fn=queue.submit,
    )
    made.poll_interval = 0.0
    queue.submit(batch)
    return made, queue


def sampled(made: Any, batch: int = 2) -> set[str]:
    keys = made.sample(global_steps=1, partition_id="train", batch_size=batch)[0].keys
    return {key.split("_")[0] for key in keys}


@pytest.mark.parametrize("mode", ["sync", "colocate_async"])
def test_groups_of_one_reward_are_replaced(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    made, queue = sampler(monkeypatch, [SOLVED, MIXED, FAILED_ALL, SOLVED, MIXED, MIXED, MIXED, MIXED], mode=mode)
    assert type(made) is (DynamicSampling if mode == "sync" else DynamicSamplingAsync)
    groups = SampledGroups(made)
    # Of groups of the same age verl takes any.
    trained = sampled(made)
    assert len(trained) == 2
    assert trained <= {"group1", "group4", "group5", "group6", "group7"}
    taken, evicted = groups.take()
    assert set(taken) == trained
    assert {group for group, why in evicted.items() if why == NO_VARIANCE} == {"group0", "group2", "group3"}
    # What began beyond the step's need is dropped, or left for the next step.
    surplus = {group for group, why in evicted.items() if why == SURPLUS}
    if mode == "sync":
        assert len({*taken, *evicted}) == queue.asked
    else:
        assert surplus == set()


def test_what_a_full_step_needs_no_more_is_accounted_for(monkeypatch: pytest.MonkeyPatch) -> None:
    made, queue = sampler(monkeypatch, [SOLVED, MIXED, MIXED, MIXED])
    groups = SampledGroups(made)
    taken = sampled(made)
    sampled_groups, evicted = groups.take()
    assert len(taken) == 2
    assert {**dict.fromkeys(sampled_groups, "trained"), **evicted} == {
        "group0": NO_VARIANCE,
        **{group: "trained" if group in taken else SURPLUS for group in ("group1", "group2", "group3")},
    }
    assert queue.asked == 4  # verl asks for two in the place of one


@pytest.mark.parametrize("left", [(), (1.0,)], ids=["none", "one"])
def test_a_group_that_lost_too_many_trials_is_replaced(
    monkeypatch: pytest.MonkeyPatch, left: tuple[float, ...]
) -> None:
    made, _ = sampler(monkeypatch, [left, MIXED, MIXED])
    groups = SampledGroups(made)
    assert sampled(made) == {"group1", "group2"}
    assert groups.take()[1] == {"group0": FAILED}


def test_verl_itself_ends_on_a_group_that_lost_all_its_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    made, _ = sampler(monkeypatch, [(), MIXED, MIXED])
    monkeypatch.setattr(made, "_terminal_eviction_reasons", ReplayBuffer._terminal_eviction_reasons.__get__(made))
    with pytest.raises(RuntimeError, match="missing DAPO metric"):
        sampled(made)


def test_where_every_group_has_one_reward_it_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    made, queue = sampler(monkeypatch, [SOLVED] * 5 + [MIXED] + [SOLVED] * 10, batches=4)
    with pytest.raises(DynamicSamplingError) as caught:
        sampled(made)
    assert queue.asked == 8
    assert str(caught.value) == (
        "8 groups were sampled (algorithm.filter_groups.max_num_gen_batches times data.train_batch_size), and 1 of the "
        "2 that a step needs have trials of different rewards: the tasks are too easy or too hard for this policy, or "
        "algorithm.filter_groups is to be off"
    )


def test_the_last_groups_that_are_allowed_count(monkeypatch: pytest.MonkeyPatch) -> None:
    made, queue = sampler(monkeypatch, [SOLVED] * 6 + [MIXED, MIXED], batches=4)
    assert sampled(made) == {"group6", "group7"}
    assert queue.asked == 8
    # The next step counts anew.
    queue.coming += [SOLVED, SOLVED, MIXED, MIXED, MIXED, MIXED]
    queue.submit(2)
    assert len(sampled(made)) == 2


def test_what_was_left_out_does_not_count_as_lost() -> None:
    account = StepAccount(1, "train", submitted=16, trained=4, dropped=12, dropped_why={NO_VARIANCE: 8, SURPLUS: 4})
    account.check(0.9)
    account.dropped_why = {"sandbox_lost": 12}
    with pytest.raises(LedgerError, match="4 of 16 trials can be trained"):
        account.check(0.9)

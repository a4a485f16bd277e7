"""PPO with a critic: a trial that was split has the advantages, and both updates the gradients, of one that was not."""

from __future__ import annotations

import copy
import functools
from collections.abc import Sequence
from typing import Any

import pytest
import torch
import transfer_queue as tq
from split_trials import ONE_SPLIT, VOCABULARY, Store, Trial, Workers, nested
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.utils import tensordict_utils as tu
from verl.workers.config import FSDPCriticConfig
from verl.workers.utils.losses import value_loss

from lego_verl.compose import compose_recipe
from lego_verl.workers.trial_trainer import TrialTrainer


class WholeTrials(TrialTrainer, PPOTrainerSync):
    """As ``HarnessTrainer`` mixes them."""


class Tokenizer:
    eos_token_id = 0


class Done:
    def get(self) -> Any:
        return {"metrics": {"mfu": [0.0]}}


def values_of(ids: torch.Tensor, table: torch.Tensor) -> torch.Tensor:
    """The value of each token: of the one before it, in whatever row both stand."""
    return torch.cat([table[ids[:-1]], table.new_zeros(1)])


class Critic:
    """The critic's workers: verl's cuts and its loss on a table of values, and no optimizer."""

    table = torch.linspace(-0.5, 0.5, VOCABULARY, dtype=torch.float64)

    def __init__(self, store: Store) -> None:
        self.store = store
        self.config = FSDPCriticConfig(strategy="fsdp2", ppo_micro_batch_size_per_gpu=1)
        self.gradients: list[torch.Tensor] = []

    def put_values(self) -> None:
        for row in self.store.rows.values():
            shifted = values_of(row["input_ids"], self.table)[len(row["prompts"]) - 1 : -1]
            row["values"] = shifted.float()

    def train_mini_batch(self, batch: KVBatchMeta) -> Done:
        info = batch.extra_info
        data = self.store.kv_batch_get(batch.keys, "train")
        for part in tu.make_iterator(
            data,
            mini_batch_size=info["mini_batch_size"],
            epochs=info["epochs"],
            seed=info["seed"],
            dataloader_kwargs=info["dataloader_kwargs"],
        ):
            table = self.table.clone().requires_grad_()
            tokens = float(part["loss_mask"].sum())
            tu.assign_non_tensor(part, dp_size=1, batch_num_tokens=tokens, global_batch_size=info["global_batch_size"])
            rows = [torch.as_tensor(ids) for ids in part["input_ids"].unbind()]
            loss, _ = value_loss(self.config, {"values": nested([values_of(ids, table) for ids in rows])}, part)
            loss.backward()
            assert table.grad is not None
            self.gradients.append(table.grad)
        return Done()


@functools.cache
def recipe() -> Any:
    return compose_recipe(["algorithm=ppo"])


def trained(
    monkeypatch: pytest.MonkeyPatch,
    trials: Sequence[Trial],
    *,
    split: bool,
    trainer: type = WholeTrials,
    lam: float = 1.0,
) -> tuple[Workers, Critic]:
    """verl's balance -> advantage -> updates on a step's trials, two of them in a mini-batch."""
    store = Store()
    for name in ("kv_batch_get", "kv_batch_put"):
        monkeypatch.setattr(tq, name, getattr(store, name))
    made = trainer.__new__(trainer)
    made.config = copy.deepcopy(recipe())
    made.config.algorithm.lam = lam
    made.config.actor_rollout_ref.rollout.n = 2
    actor = made.config.actor_rollout_ref.actor
    actor.ppo_mini_batch_size, actor.ppo_epochs, actor.shuffle = 1, 1, False
    made.tokenizer, made.use_critic, made.global_steps = Tokenizer(), True, 1
    made.actor_rollout_wg = workers = Workers(store, ranks=1, mode="token-mean", micro=2)
    made.critic_wg = critic = Critic(store)
    batch = made._balance_batch(store.fill(trials, split=split), {})
    store.compute_old_log_probs()
    critic.put_values()
    batch = made._compute_advantage(batch, {})
    batch = made._update_critic(batch, {})
    made._update_actor(batch, {})
    assert made.critic_wg is critic
    return workers, critic


def same(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    return len(left) == len(right) and all(
        torch.allclose(a.double(), b.double(), rtol=1e-4, atol=1e-6) for a, b in zip(left, right, strict=True)
    )


def advantages(store: Store) -> list[float]:
    """Of every loss token of the step, trial by trial."""
    return [
        float(value)
        for key in sorted(store.rows)
        for value, mask in zip(store.rows[key]["advantages"], store.rows[key]["response_mask"], strict=True)
        if mask
    ]


def test_both_updates_have_the_gradients_of_whole_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two mini-batches of two trials; the first trial became three segments."""
    whole, whole_critic = trained(monkeypatch, ONE_SPLIT, split=False, trainer=PPOTrainerSync)
    split, split_critic = trained(monkeypatch, ONE_SPLIT, split=True)
    assert len(whole.gradients) == len(whole_critic.gradients) == 2
    assert all(float(step.abs().max()) > 1e-3 for step in [*whole.gradients, *whole_critic.gradients])
    assert advantages(split.store) == pytest.approx(advantages(whole.store), abs=1e-5)
    assert same(split.gradients, whole.gradients)
    assert same(split_critic.gradients, whole_critic.gradients)


def test_verl_itself_cuts_a_trial_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """The control: without this project's trainer there are more steps, of other gradients."""
    whole, whole_critic = trained(monkeypatch, ONE_SPLIT, split=False, trainer=PPOTrainerSync)
    split, split_critic = trained(monkeypatch, ONE_SPLIT, split=True, trainer=PPOTrainerSync)
    assert len(split.gradients) == len(split_critic.gradients) == 3
    assert not same(split.gradients[:2], whole.gradients)
    assert not same(split_critic.gradients[:2], whole_critic.gradients)


def test_with_lambda_below_one_only_split_trials_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a seam a segment has the trial's reward where an unsplit one has the value of what follows."""
    unsplit = [trial for trial in ONE_SPLIT if not trial.cuts]
    whole, _ = trained(monkeypatch, unsplit, split=False, lam=0.9)
    again, _ = trained(monkeypatch, unsplit, split=True, lam=0.9)
    assert advantages(again.store) == pytest.approx(advantages(whole.store))
    whole, _ = trained(monkeypatch, ONE_SPLIT, split=False, lam=0.9)
    split, _ = trained(monkeypatch, ONE_SPLIT, split=True, lam=0.9)
    assert advantages(split.store) != pytest.approx(advantages(whole.store), abs=1e-3)

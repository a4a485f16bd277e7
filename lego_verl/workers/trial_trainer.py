"""verl's trainer, in which the unit of the loss is the trial and not the row.

A step without split trials goes verl's own way, untouched. The reasons stand in ``loss_weight.py`` (what a trial
weighs, group statistics) and ``mini_batches.py`` (which rows make an optimizer step).
"""

from __future__ import annotations

import random
from typing import Any

import ray
import torch
import transfer_queue as tq
from omegaconf import DictConfig
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.trainer.ppo.padding_utils import upsample_batch_to_divisible_size
from verl.trainer.ppo.utils import Role
from verl.trainer.ppo.v1.trainer_base import PPOTrainer
from verl.utils.seqlen_balancing import log_seqlen_unbalance

from lego_verl.algorithm_check import CRITIC
from lego_verl.workers.loss_weight import loss_weights, trial_advantages
from lego_verl.workers.mini_batches import MiniBatches, UpdateInTrials, whole_trials


class TrialTrainer(PPOTrainer):
    """To be mixed with one of verl's trainers, which says when weights and trials go where."""

    actor_rollout_wg: Any
    critic_wg: Any

    def __init__(self, config: DictConfig) -> None:
        super().__init__(config)
        self._mini_batches: MiniBatches | None = None

    def _init_resource_pool_mgr(self) -> None:
        super()._init_resource_pool_mgr()
        if Role.Critic in self.role_worker_mapping:
            from lego_verl.workers.critic import CriticWorker  # engines are heavy, and few runs have a critic

            self.role_worker_mapping[Role.Critic] = ray.remote(CriticWorker)

    def _balance_batch(self, batch: KVBatchMeta, metrics: dict, *args: Any, **kwargs: Any) -> KVBatchMeta:
        trials = [trial_of(key) for key in batch.keys]
        self._mini_batches = None
        if len(set(trials)) == len(trials):
            return super()._balance_batch(batch, metrics, *args, **kwargs)
        actor, ranks = self.config.actor_rollout_ref.actor, self._ranks()
        self._mini_batches = whole_trials(
            trials,
            trials_each=actor.ppo_mini_batch_size * self.config.actor_rollout_ref.rollout.n,
            ranks=ranks,
            shuffle=random.Random(f"{actor.data_loader_seed} {self.global_steps}") if actor.shuffle else None,
        )
        batch = upsample_batch_to_divisible_size(batch, self._mini_batches.total, self.tokenizer.eos_token_id)
        lengths = [tag["seq_len"] for tag in batch.tags]
        order = self._mini_batches.order(lengths, ranks)
        share = len(order) // ranks
        partitions = [order[rank * share : (rank + 1) * share] for rank in range(ranks)]
        metrics.update(log_seqlen_unbalance(lengths, partitions, prefix="global_seqlen"))
        batch.reorder(order)
        return batch

    def _ranks(self) -> int:
        """Data-parallel ranks of the actor, asked for as verl's ``_balance_batch`` does."""
        known = self.actor_rollout_wg._dispatch_info
        if "actor" not in known:
            known["actor"] = self.actor_rollout_wg._query_dispatch_info("actor")
        return int(max(known["actor"])) + 1

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict) -> KVBatchMeta:
        batch = super()._compute_advantage(batch, metrics)
        if self._mini_batches is not None:
            self._weigh(batch)
        return batch

    def _weigh(self, batch: KVBatchMeta) -> None:
        """Write the advantages of trials, and the weights of their rows where these are not all 1."""
        algorithm, actor = self.config.algorithm, self.config.actor_rollout_ref.actor
        # Read again: rollout correction may have masked tokens, and may have written weights of its own.
        fields = ["response_mask", "rm_scores", "rollout_is_weights"]
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=fields)
        masks = data["response_mask"].unbind()
        trials = [trial_of(key) for key in batch.keys]
        written = {}
        if algorithm.adv_estimator != CRITIC:  # whose advantages are of tokens already
            advantages = trial_advantages(
                torch.stack([row.sum() for row in data["rm_scores"].unbind()]),
                trials,
                [trial.rsplit("_", 1)[0] for trial in trials],
                algorithm.adv_estimator,
                norm_by_std=algorithm.get("norm_adv_by_std_in_grpo", True),
                config=algorithm,
            )
            of_tokens = _nested([mask * value for mask, value in zip(masks, advantages, strict=True)])
            written = {"advantages": of_tokens, "returns": of_tokens}
        mode = effective_mode(actor)
        weights = loss_weights(trials, torch.stack([mask.sum() for mask in masks]), mode)
        if not bool((weights == 1).all()):
            corrected = data["rollout_is_weights"].unbind() if "rollout_is_weights" in data else [1.0] * len(masks)
            written["rollout_is_weights"] = _nested(
                [mask * factor * weight for mask, factor, weight in zip(masks, corrected, weights, strict=True)]
            )
        if written:
            fields = TensorDict(written, batch_size=len(batch))
            tq.kv_batch_put(keys=batch.keys, partition_id=batch.partition_id, fields=fields)

    def _update_critic(self, batch: KVBatchMeta, metrics: dict) -> KVBatchMeta:
        if self._mini_batches is None:
            return super()._update_critic(batch, metrics)
        workers = self.critic_wg
        self.critic_wg = UpdateInTrials(workers, self._mini_batches)
        try:
            return super()._update_critic(batch, metrics)
        finally:
            self.critic_wg = workers

    def _update_actor(self, batch: KVBatchMeta, metrics: dict) -> KVBatchMeta:
        if self._mini_batches is None:
            return super()._update_actor(batch, metrics)
        workers = self.actor_rollout_wg
        self.actor_rollout_wg = UpdateInTrials(workers, self._mini_batches)
        try:
            return super()._update_actor(batch, metrics)
        finally:
            self.actor_rollout_wg = workers


def trial_of(key: str) -> str:
    """The trial of a row: verl's keys are ``{group}_{trial in the group}_{segment}``."""
    return key.rsplit("_", 1)[0]


def effective_mode(actor: Any) -> str:
    """The mode that the policy loss aggregates by; ``sapo`` does not ask."""
    return "seq-mean-token-mean" if actor.policy_loss.loss_mode == "sapo" else str(actor.loss_agg_mode)


def _nested(rows: list[torch.Tensor]) -> torch.Tensor:
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)

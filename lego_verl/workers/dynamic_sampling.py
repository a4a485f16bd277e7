"""Dynamic sampling (DAPO, https://arxiv.org/abs/2503.14476): a step is filled up with groups that have an advantage.

verl's replay buffer leaves out groups all of whose trials have one reward, and samples others in their place
(verl/trainer/ppo/v1/replay_buffer.py, ``filter_groups_metric``). Three things are added here. A group that lost so many
trials that it would be dropped is replaced as well; of one that lost them all verl asks a reward, and ends. And verl
0.9.1 ignores ``max_num_gen_batches``, so where every group has one reward it would sample for ever: here it stops.
Which groups were left out is for ``sampled_groups.py`` to tell the ledger.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

from transfer_queue import KVBatchMeta
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer, ReplayBufferAsync


class DynamicSamplingError(RuntimeError):
    """A step's groups are used up, and too few have an advantage."""


class _Bounded(ReplayBuffer):
    """To be mixed with one of verl's replay buffers.

    Args:
        min_group: trials that a group must keep (``lego.trial.min_group``).
        most: groups that a step may sample, those that it begins with among them.
    """

    def __init__(self, *, min_group: int, most: int, refill_fn: Callable[[int], Any], **settings: Any) -> None:
        super().__init__(refill_fn=self._refill, **settings)
        self._min_group, self._most, self._submit = min_group, most, refill_fn
        self._wanted = self._sampled = self._refused = 0

    def sample(self, global_steps: int, partition_id: str, batch_size: int) -> tuple[KVBatchMeta, dict]:
        """verl's ``sample``.

        Raises:
            DynamicSamplingError: when the step may sample no more groups, and too few of those it has can be trained.
        """
        self._wanted = self._sampled = batch_size
        self._refused = 0
        return super().sample(global_steps, partition_id, batch_size)

    def _refill(self, groups: int) -> None:
        allowed = min(groups, self._most - self._sampled)
        self._refused += groups - max(allowed, 0)
        if allowed > 0:
            self._sampled += allowed
            self._submit(allowed)

    def _wait_for_next_poll(self, partition_id: str, last_debug_time: float) -> float:
        if self._refused and not self.pending_keys[partition_id] and not self.running_keys[partition_id]:
            fit = len(self.finished_keys[partition_id] | self.failure_keys[partition_id])
            raise DynamicSamplingError(
                f"{self._sampled} groups were sampled (algorithm.filter_groups.max_num_gen_batches times "
                f"data.train_batch_size), and {fit} of the {self._wanted} that a step needs have trials of different "
                "rewards: the tasks are too easy or too hard for this policy, or algorithm.filter_groups is to be off"
            )
        return super()._wait_for_next_poll(partition_id, last_debug_time)

    def _terminal_eviction_reasons(
        self, global_steps: int, partition_id: str
    ) -> tuple[set[str], set[str], set[str], Counter]:
        if partition_id == "val":
            return super()._terminal_eviction_reasons(global_steps, partition_id)
        small = self._small_groups(partition_id)
        # Out of verl's sight, since it asks every finished group for its reward.
        self.finished_keys[partition_id] -= small
        stale, alike, failed, counts = super()._terminal_eviction_reasons(global_steps, partition_id)
        self.finished_keys[partition_id] |= small
        return stale, alike, failed | small, counts

    def _small_groups(self, partition_id: str) -> set[str]:
        trials: dict[str, set[str]] = {group: set() for group in self.finished_keys[partition_id]}
        for key in self.partitions[partition_id]:
            group, trial, _ = key.rsplit("_", 2)
            if group in trials:
                trials[group].add(trial)
        return {group for group, members in trials.items() if len(members) < self._min_group}


class DynamicSampling(_Bounded, ReplayBuffer):
    """For steps that train what they sampled."""


class DynamicSamplingAsync(_Bounded, ReplayBufferAsync):
    """For steps that take what is there."""


def dynamic_sampling(*, trainer_mode: str, sampler_kwargs: Any, **settings: Any) -> _Bounded:
    """What ``trainer.v1.sampler.custom_sampler`` names in ``recipes/algorithm/dapo.yaml``; verl calls it with the
    arguments of ``ReplayBuffer``."""
    own, batch = sampler_kwargs.filter_groups, int(sampler_kwargs.train_batch_size)
    sampler = DynamicSampling if trainer_mode == "sync" else DynamicSamplingAsync
    return sampler(
        trainer_mode=trainer_mode,
        sampler_kwargs=sampler_kwargs,
        filter_groups_metric=str(own.metric),
        train_batch_size=batch,
        gen_batch_size=1,
        max_inflight_gen_batches=int(own.max_inflight_gen_batches),
        min_group=int(sampler_kwargs.min_group),
        most=int(own.max_num_gen_batches) * batch,
        **settings,
    )

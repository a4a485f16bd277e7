"""The control experiment: rewards are handed to the wrong trials, and nothing should be learnt."""

from __future__ import annotations

import numpy as np
import transfer_queue as tq
from tensordict import TensorDict
from transfer_queue import KVBatchMeta
from verl.workers.utils.padding import response_to_nested

from lego_verl.workers.trial_trainer import trial_of


def shuffle_rewards(batch: KVBatchMeta, seed: int, step: int) -> None:
    """Every trial gets the reward of another trial of the step, drawn at random. Written back to verl's queue."""
    # verl's padding rows are nobody's trials.
    keys = [key for key, tag in zip(batch.keys, batch.tags, strict=True) if not tag.get("is_padding", False)]
    data = tq.kv_batch_get(keys=keys, partition_id=batch.partition_id, select_fields=["rm_scores", "response_mask"])
    mask, scores = data["response_mask"], data["rm_scores"]
    rewards = np.array([float(row.sum()) for row in scores.unbind()])
    trials = [trial_of(key) for key in keys]
    unique = sorted(set(trials))
    generator = np.random.default_rng([seed, step])
    source = dict(zip(unique, generator.permutation(unique), strict=True))
    of_trial = dict(zip(trials, rewards, strict=True))
    shuffled = scores.to_padded_tensor(0.0).clone()
    for row, (trial, line) in enumerate(zip(trials, scores.unbind(), strict=True)):
        shuffled[row] = 0.0
        shuffled[row, len(line) - 1] = of_trial[str(source[trial])]
    fields = TensorDict({"rm_scores": response_to_nested(shuffled, mask)}, batch_size=len(keys))
    tq.kv_batch_put(keys=keys, partition_id=batch.partition_id, fields=fields)

"""What a trial weighs in the loss, however many segments it became.

verl trains rows. A trial that was split into K segments is K rows, and where verl averages over rows it weighs K
times. Here the unit is the trial. Write ``i`` for a trial, ``s`` for one of its segments, ``n_s`` for the loss
tokens of a segment, ``n_i = sum of n_s`` for those of the trial, ``L_t`` for the loss of a token, ``G`` for the
trials of a mini-batch (``ppo_mini_batch_size * rollout.n``, which verl passes as ``global_batch_size``), ``N`` for
the loss tokens of the mini-batch over all ranks (verl's ``batch_num_tokens``) and ``F`` for ``loss_scale_factor``.
In verl's aggregation modes a mini-batch's loss is

====================================  ==========================================  ==================================
``actor.loss_agg_mode``               of unsplit trials                           of segments, with a weight ``w_s``
====================================  ==========================================  ==================================
``token-mean``                        1/N sum_i sum_t L_t                         the same sum: ``w_s = 1``
``token-sum``                         sum_i sum_t L_t                             the same sum: ``w_s = 1``
``seq-mean-token-sum``                1/G sum_i sum_t L_t                         the same sum: ``w_s = 1``
``seq-mean-token-sum-norm``           1/(G F) sum_i sum_t L_t                     the same sum: ``w_s = 1``
``seq-mean-token-mean``               1/G sum_i 1/n_i sum_t L_t                   ``w_s = n_s / n_i``
====================================  ==========================================  ==================================

The last: 1/G sum_s w_s (1/n_s sum_t L_t) with ``w_s = n_s/n_i`` is 1/G sum_i 1/n_i sum_t L_t. G is a constant and
not a count of the rows at hand, so it makes no difference in which mini-batch, micro-batch or rank a segment lands.
The table takes two things for granted. A trial's segments share a mini-batch, so that N and the number of optimizer
steps are what they would be: ``mini_batches.py`` sees to that. And F is set: without it verl divides by the width
of whichever micro-batch a row is in, and ``consistency.py`` refuses that.

The weight goes in as ``rollout_is_weights``, by which every policy loss of verl multiplies its tokens' loss after
clipping and before the aggregation. It does not reach verl's KL and entropy terms, nor the loss ``bypass_mode``:
``consistency.py`` refuses them where ``w_s`` is not 1. Where it is 1 they are whole as well. What is defined over a
sequence stays defined over a segment: the ratio of ``gspo``, and rollout correction of level ``sequence``.

**With a critic** (``gae``) the advantage is of a token. verl puts the trial's reward on the last token of each of its
segments and goes back from there within the segment. Without discount (``gamma=1``) and with ``lam=1`` a token's
advantage is the reward less the token's value, in whatever segment it stands: split and whole are the same. With
``lam < 1`` they differ at a seam, where an unsplit trial bootstraps from the value of what follows and a segment has
the reward instead; both estimate the same. With ``gamma < 1`` the reward would be discounted from the end of the
segment, and ``algorithm_check.py`` refuses that. Advantages are whitened over tokens, which are the same either way.
The critic's loss has no weights: ``token-mean`` needs none, and ``seq-mean-token-mean`` is refused.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import torch
from verl.protocol import DataProto
from verl.trainer.ppo.ray_trainer import compute_advantage

MODES = ("token-mean", "token-sum", "seq-mean-token-sum", "seq-mean-token-sum-norm", "seq-mean-token-mean")
"""verl's aggregation modes."""


def loss_weights(trials: Sequence[Hashable], loss_tokens: torch.Tensor, mode: str) -> torch.Tensor:
    """The weight of each row's loss that makes verl's sum over rows a sum over trials.

    Args:
        trials: (rows,) the trial that each row is a segment of.
        loss_tokens: (rows,) how many tokens of the row carry loss.
        mode: verl's ``actor.loss_agg_mode``.

    Returns:
        (rows,) float32, without unit; 1 for a trial of one row, and for a trial without loss tokens.

    Raises:
        ValueError: for a mode that is not one of ``MODES``.
    """
    if mode not in MODES:
        raise ValueError(f"unknown loss_agg_mode {mode!r}: it is one of {', '.join(MODES)}")
    if mode != "seq-mean-token-mean":
        return torch.ones(len(trials))
    number = {trial: position for position, trial in enumerate(dict.fromkeys(trials))}
    of_row = torch.tensor([number[trial] for trial in trials], dtype=torch.int64)
    counts = loss_tokens.to(torch.float64)
    of_trial = torch.zeros(len(number), dtype=torch.float64).index_add_(0, of_row, counts)[of_row]
    return torch.where(of_trial > 0, counts / of_trial.clamp(min=1), 1.0).float()


def trial_advantages(
    rewards: torch.Tensor,
    trials: Sequence[str],
    groups: Sequence[str],
    estimator: str,
    *,
    norm_by_std: bool = True,
    config: Any = None,
) -> torch.Tensor:
    """verl's advantage of each row, from statistics that count every trial of a group once.

    verl 0.9.1 does so for ``grpo``, on the last row of a trial; for its other estimators it counts rows, and
    where rollout correction masks the whole last row it gives the trial an advantage of 0.

    Args:
        rewards: (rows,) the reward of the row's trial.
        trials: (rows,) the trial of each row.
        groups: (rows,) the group of each row.
        estimator: a ``algorithm.adv_estimator`` of verl that gives a whole trial one advantage.
        norm_by_std: verl's ``algorithm.norm_adv_by_std_in_grpo``.
        config: verl's ``algorithm``, which some estimators read.

    Returns:
        (rows,) the advantage of the row's trial.
    """
    row_of_trial = {trial: row for row, trial in enumerate(trials)}
    rows = list(row_of_trial.values())
    data = DataProto.from_dict(
        tensors={"token_level_rewards": rewards[rows, None].float(), "response_mask": torch.ones(len(rows), 1)},
        non_tensors={"uid": np.array([groups[row] for row in rows], dtype=object)},
    )
    data = compute_advantage(data, adv_estimator=estimator, norm_adv_by_std_in_grpo=norm_by_std, config=config)
    of_trial = dict(zip(row_of_trial, data.batch["advantages"][:, 0], strict=True))
    return torch.stack([of_trial[trial] for trial in trials])

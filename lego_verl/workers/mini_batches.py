"""Mini-batches of whole trials: an optimizer step takes the trials it would take if none had been split.

verl cuts a step into mini-batches by counting rows. Where trials became several rows, a step has more of
them, a trial's rows fall into different ones, and under ``token-mean`` a token's weight depends on how
many padding rows share its mini-batch. Here a step has as many mini-batches as it has with unsplit trials, and
each is filled up with verl's padding rows to the same number of rows, which verl needs.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from verl.utils.seqlen_balancing import calculate_workload, get_seqlen_balanced_partitions


@dataclass(frozen=True)
class MiniBatches:
    """A step's rows, cut into mini-batches."""

    members: tuple[tuple[int, ...], ...]
    """The rows of each mini-batch, padding not among them."""
    rows: int
    """Rows of every mini-batch over all ranks, padding among them."""

    @property
    def total(self) -> int:
        return self.rows * len(self.members)

    def order(self, lengths: Sequence[int], ranks: int) -> list[int]:
        """The order of rows in which verl's even cuts, by rank and then by mini-batch, give these mini-batches.

        Args:
            lengths: (total,) tokens of each row; those beyond the members are padding rows.
            ranks: data-parallel ranks; each gets about the same work of a mini-batch.
        """
        padding = iter(range(sum(len(rows) for rows in self.members), self.total))
        of_rank: list[list[int]] = [[] for _ in range(ranks)]
        for member_rows in self.members:
            rows = [*member_rows, *(next(padding) for _ in range(self.rows - len(member_rows)))]
            for rank, part in enumerate(_balanced([lengths[row] for row in rows], ranks)):
                of_rank[rank].extend(rows[position] for position in part)
        return [row for rows in of_rank for row in rows]


def _balanced(lengths: Sequence[int], ranks: int) -> list[list[int]]:
    if ranks == 1:
        return [list(range(len(lengths)))]
    workload = calculate_workload(torch.tensor(lengths, dtype=torch.int64))
    return get_seqlen_balanced_partitions(workload, k_partitions=ranks, equal_size=True)


def whole_trials(
    trials: Sequence[str], *, trials_each: int, ranks: int, shuffle: random.Random | None = None
) -> MiniBatches:
    """Cut a step's rows into mini-batches that part no trial.

    Args:
        trials: (rows,) the trial that each row is a segment of.
        trials_each: trials of a mini-batch at most (``ppo_mini_batch_size * rollout.n``).
        ranks: data-parallel ranks.
        shuffle: draws which trials share a mini-batch; None: by their order.

    Returns:
        As many mini-batches as the trials would make unsplit, of numbers of trials that differ by one at most.
    """
    rows_of: dict[str, list[int]] = {}
    for row, trial in enumerate(trials):
        rows_of.setdefault(trial, []).append(row)
    order = list(rows_of)
    if shuffle is not None:
        shuffle.shuffle(order)
    count = math.ceil(len(order) / trials_each)
    bounds = [len(order) * position // count for position in range(count + 1)]
    members = tuple(
        tuple(row for trial in order[start:stop] for row in rows_of[trial]) for start, stop in pairwise(bounds)
    )
    return MiniBatches(members, math.ceil(max(map(len, members)) / ranks) * ranks)


class UpdateInTrials:
    """The actor's or the critic's workers for one update. verl tells them one number for two things: the rows of a
    mini-batch, and the trials that its loss is a mean over. These are told the first anew; all else goes through."""

    def __init__(self, workers: Any, mini_batches: MiniBatches) -> None:
        self._workers = workers
        self._mini_batches = mini_batches

    def __getattr__(self, name: str) -> Any:
        return getattr(self._workers, name)

    def update_actor(self, batch: Any) -> Any:
        return self._workers.update_actor(self._told(batch))

    def train_mini_batch(self, batch: Any) -> Any:
        """The critic's update."""
        return self._workers.train_mini_batch(self._told(batch))

    def _told(self, batch: Any) -> Any:
        batch.extra_info.update(mini_batch_size=self._mini_batches.rows, dataloader_kwargs={"shuffle": False})
        return batch

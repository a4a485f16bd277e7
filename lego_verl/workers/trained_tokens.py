"""Keeps what the trainer knew of a step's tokens for people, beside what they were sampled with.

It reads verl's queue when advantages are known and before the update, and writes one file a step
(``lego_verl/monitor/trained_tokens.py``). It stops nothing: what cannot be written is said once, until it can be again.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import transfer_queue as tq
from numpy.typing import NDArray
from transfer_queue import KVBatchMeta

from lego_verl.monitor.run_folder import RunFolder
from lego_verl.monitor.trained_tokens import TrainedSegment, trained_file, write_trained

_FIELDS = ("response_mask", "advantages", "old_log_probs", "entropy", "rollout_is_weights", "extra_fields")


class TrainedTokens:
    """One a trainer.

    Args:
        compared: whether the trainer computes log-probabilities of its own (not in ``bypass_mode``).
        say: takes a line for a person.
    """

    def __init__(self, run: RunFolder, *, compared: bool, say: Callable[[str], None] | None = None) -> None:
        self._run, self._compared, self._say = run, compared, say or _to_stderr
        self._trouble = False

    def masks(self, batch: KVBatchMeta) -> list[NDArray[np.bool_]]:
        """(response,) of each row: which tokens carry loss, before rollout correction takes any of them out."""
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=["response_mask"])
        return [row.bool().numpy() for row in data["response_mask"].unbind()]

    def write(self, batch: KVBatchMeta, step: int, masks: Sequence[NDArray[np.bool_]]) -> bool:
        """Write the step's file; whether it was written.

        Args:
            masks: from before advantages were computed.
        """
        data = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=list(_FIELDS))
        path = trained_file(self._run, step)
        try:
            write_trained(path, segments_of(data, batch.tags, masks, compared=self._compared))
        except OSError as error:
            if not self._trouble:
                self._say(
                    f"RUN FOLDER: {path} cannot be written: {error}. Training goes on; of these steps the trainer's "
                    f"log-probabilities cannot be looked at"
                )
            self._trouble = True
            return False
        if self._trouble:
            self._say(f"RUN FOLDER: {path} is written again")
        self._trouble = False
        return True


def segments_of(
    data: Any, tags: Sequence[Any], masks: Sequence[NDArray[np.bool_]], *, compared: bool
) -> list[TrainedSegment]:
    """The rows of a batch that are no padding.

    Args:
        data: what verl's queue holds of them (``_FIELDS``; nested tensors of shape (rows, response)), of which
            ``entropy`` and ``rollout_is_weights`` may be missing. ``extra_fields`` names step, trial and segment
            (``agent_loop.outputs``).
        masks: as ``TrainedTokens.masks``.
        compared: whether ``old_log_probs`` and ``entropy`` are the trainer's.
    """
    rows = len(tags)

    def column(name: str, there: bool = True) -> Sequence[Any]:
        return data[name].unbind() if there and name in data else [None] * rows

    columns = zip(
        tags,
        masks,
        data["extra_fields"],
        column("response_mask"),
        column("advantages"),
        column("old_log_probs", compared),
        column("entropy", compared),
        column("rollout_is_weights"),
        strict=True,
    )
    found = []
    for tag, mask, extra, left, advantages, logprobs, entropies, weights in columns:
        if tag.get("is_padding", False):
            continue
        began, trial, segment = getattr(extra, "data", extra)["segment_of"]
        rejected = ~left.bool().numpy()[mask]
        found.append(
            TrainedSegment(
                began=int(began),
                trial=str(trial),
                segment=int(segment),
                advantages=_floats(advantages, mask),
                logprobs=None if logprobs is None else _floats(logprobs, mask),
                entropies=None if entropies is None else _floats(entropies, mask),
                weights=None if weights is None else _floats(weights, mask),
                rejected=rejected if rejected.any() else None,
            )
        )
    return found


def _floats(row: Any, mask: NDArray[np.bool_]) -> NDArray[np.float32]:
    values: NDArray[np.float32] = row.float().numpy()[mask]
    return values


def _to_stderr(line: str) -> None:
    print(f"lego_verl: {line}", file=sys.stderr, flush=True)

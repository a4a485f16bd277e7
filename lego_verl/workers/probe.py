"""A weight sync that did not arrive is seen at once: both engines score one fixed sequence after every sync.

They must agree, and the value must differ from the one before the update (see verl#7495 in the field: an
adapter that never reached the rollout engine went unseen for two months).
"""

from __future__ import annotations

import uuid
from typing import Any

import numpy as np
import ray
import torch
import transfer_queue as tq
from numpy.typing import NDArray
from transfer_queue import KVBatchMeta
from transformers import PreTrainedTokenizerBase
from verl.utils.tensordict_utils import list_of_dict_to_tensordict

_TEXT = "A weight sync has arrived when both engines say the same about this line, and something new. 0123456789"
_PARTITION = "probe"
_SECONDS = 300.0
"""How long a rollout server may take for it."""


class WeightSyncError(RuntimeError):
    """Rollout and trainer do not hold the same weights."""


class WeightProbe:
    """Scores a fixed sequence with the trainer and with every rollout server.

    Args:
        worker_group: verl's actor worker group.
        servers: handles that answer ``score(ids) -> list[float]``.
        tolerance: largest absolute difference of a log-probability.
    """

    def __init__(
        self, worker_group: Any, servers: list[Any], tokenizer: PreTrainedTokenizerBase, *, tolerance: float
    ) -> None:
        self._worker_group, self._servers, self._tolerance = worker_group, servers, tolerance
        self._ids = list(tokenizer.encode(_TEXT, add_special_tokens=False))[:64]
        self._before: NDArray[np.float32] | None = None

    def check(self, *, updated: bool) -> dict[str, float]:
        """Compare now; ``updated`` says that the weights must have changed since the last check.

        Returns:
            ``probe/difference`` (largest, between engines) and ``probe/change`` (mean, since the last check).

        Raises:
            WeightSyncError: with what differs.
        """
        trainer = self._trainer_scores()
        difference = 0.0
        for number, server in enumerate(self._servers):
            try:
                rollout = np.asarray(ray.get(server.score.remote(self._ids), timeout=_SECONDS), dtype=np.float32)
            except ray.exceptions.GetTimeoutError as error:
                raise WeightSyncError(
                    f"waited {_SECONDS:g} s for rollout server {number} to score the probe after a weight sync"
                ) from error
            differs = float(np.abs(rollout - trainer).max())
            if not differs <= self._tolerance:  # so is it with NaN, which `max` below would lose
                raise WeightSyncError(
                    f"after a weight sync, rollout server {number} and trainer differ by {differs:.3g} in the "
                    f"log-probability of the probe (tolerance {self._tolerance:g}): the weights did not arrive"
                )
            difference = max(difference, differs)
        change = float("nan") if self._before is None else float(np.abs(trainer - self._before).mean())
        if updated and self._before is not None and change == 0.0:
            raise WeightSyncError("an update left the probe's log-probability exactly as it was: nothing was learnt")
        self._before = trainer
        return {"probe/difference": difference, "probe/change": change}

    def _trainer_scores(self) -> NDArray[np.float32]:
        """Log-probability of every token but the first, by verl's actor."""
        ids = torch.tensor(self._ids, dtype=torch.int64)
        fields = {
            "prompts": ids[:1],
            "responses": ids[1:],
            "input_ids": ids,
            "position_ids": torch.arange(len(ids)),
            "response_mask": torch.ones(len(ids) - 1, dtype=torch.int64),
            "loss_mask": torch.ones(len(ids) - 1, dtype=torch.int64),
        }
        key = f"{uuid.uuid4()}_0_0"
        tag = {"seq_len": len(ids)}
        batch = KVBatchMeta(partition_id=_PARTITION, keys=[key], tags=[tag])
        tq.kv_batch_put(keys=[key], partition_id=_PARTITION, fields=list_of_dict_to_tensordict([fields]), tags=[tag])
        try:
            batch.extra_info.update({"calculate_entropy": False, "compute_loss": False, "temperature": 1.0})
            self._worker_group.compute_log_prob(batch)
            data = tq.kv_batch_get(keys=[key], partition_id=_PARTITION, select_fields=["log_probs"])
            # The engine gives a value at every position, each for the token that follows it.
            return data["log_probs"][0][: len(ids) - 1].float().numpy()
        finally:
            tq.kv_clear(keys=[key], partition_id=_PARTITION)

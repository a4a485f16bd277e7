"""What verl adds to vLLM's worker, on the CPU."""

from __future__ import annotations

from typing import Any

import torch
from verl.workers.rollout.vllm_rollout.bucketed_weight_transfer import BucketedWeightReceiver
from verl.workers.rollout.vllm_rollout.utils import vLLMColocateWorkerExtension


class CPUWorkerExtension(vLLMColocateWorkerExtension):
    def update_weights_from_ipc(
        self, peft_config: dict[str, Any] | None = None, base_sync_done: bool = False, use_shm: bool = False
    ) -> None:
        """Take new weights, all at once, through vLLM's own reload.

        vLLM's CPU layers repack their weights when they are loaded and drop what they were loaded from, so verl's way,
        bucket by bucket into the parameters that are there, finds none.

        Raises:
            ValueError: for an adapter.
        """
        if peft_config:
            raise ValueError("LoRA is not for vLLM on the CPU: set actor_rollout_ref.model.lora_rank=0")
        receiver = BucketedWeightReceiver(
            zmq_handle=self._get_zmq_handle(), device=torch.device("cpu"), use_shm=use_shm
        )
        weights: list[tuple[str, torch.Tensor]] = []
        receiver.receive_weights(
            # A bucket's memory is used again for the next one.
            on_bucket_received=lambda bucket, is_last: weights.extend((name, each.clone()) for name, each in bucket)
        )
        self.model_runner.reload_weights(weights_iterator=iter(weights))

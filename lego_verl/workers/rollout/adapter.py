"""The side of the rollout that lives in the trainer's worker process: it pushes weights to the server.

The counterpart of verl's vLLM ``ServerAdapter`` (verl/workers/rollout/vllm_rollout), for the ``naive``
checkpoint engine.
"""

from __future__ import annotations

import os
from collections.abc import Generator
from typing import Any

import ray
import torch
from torch.distributed.device_mesh import DeviceMesh
from verl.workers.rollout.base import BaseRollout
from verl.workers.rollout.utils import ensure_async_iterator


def server_name(replica_rank: int) -> str:
    return f"transformers_server_{replica_rank}_0"


class TransformersAdapter(BaseRollout):
    def __init__(self, config: Any, model_config: Any, device_mesh: DeviceMesh, replica_rank: int = -1) -> None:
        super().__init__(config, model_config, device_mesh)
        rank = int(os.environ["RANK"])
        world_size = self.config.tensor_model_parallel_size * self.config.data_parallel_size
        self.replica_rank = rank // world_size if replica_rank == -1 else replica_rank
        self.is_leader = rank % world_size == 0
        self._server: Any = None

    def _handle(self) -> Any:
        if self._server is None:
            self._server = ray.get_actor(server_name(self.replica_rank))
        return self._server

    async def resume(self, tags: list[str]) -> None:
        """Nothing was released: the server keeps its weights and drops its cache on every update."""

    async def release(self) -> None: ...

    async def update_weights(
        self,
        weights: Generator[tuple[str, torch.Tensor], None, None],
        wire_format: str = "named_tensors",
        global_steps: int | None = None,
        **_: Any,
    ) -> None:
        """Send every parameter to the server; it answers when all of them are in place.

        Raises:
            ValueError: for a wire format other than full named tensors.
        """
        if wire_format != "named_tensors":
            raise ValueError(f"the transformers rollout takes full tensors, not wire_format={wire_format!r}")
        parameters: dict[str, torch.Tensor] = {}
        # Every rank drains the generator: gathering a full tensor is a collective call.
        async for name, tensor in ensure_async_iterator(weights):
            if self.is_leader:
                parameters[name] = tensor.detach().cpu().clone()
        if self.is_leader:
            await self._handle().update_weights.remote(parameters, global_steps)

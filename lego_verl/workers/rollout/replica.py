"""Launches one ``TransformersServer`` a replica, as verl's rollout managers expect it."""

from __future__ import annotations

import ray
from verl.utils.config import omega_conf_to_dataclass
from verl.workers.rollout.replica import RolloutReplica

from lego_verl.workers.rollout.adapter import server_name
from lego_verl.workers.rollout.server import TransformersServer


class TransformersReplica(RolloutReplica):
    async def launch_servers(self) -> None:
        if self.world_size != 1:
            raise ValueError("the transformers rollout runs one process a replica: set tensor_model_parallel_size=1")
        server = (
            ray.remote(TransformersServer)
            .options(name=server_name(self.replica_rank), num_cpus=0, max_concurrency=self.max_concurrency)
            .remote(self.config, omega_conf_to_dataclass(self.model_config))
        )
        self.servers = [server]
        self._server_handle = server
        self._server_address = await server.get_server_address.remote()

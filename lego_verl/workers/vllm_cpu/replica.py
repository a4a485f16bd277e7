"""verl's vLLM replica, whose workers load new weights as vLLM's CPU backend wants it."""

from __future__ import annotations

from typing import Any

import ray
from verl.workers.rollout.vllm_rollout.vllm_async_server import vLLMHttpServer, vLLMReplica


class CPUServer(vLLMHttpServer):
    def _get_worker_extension_cls(self) -> str:
        return "lego_verl.workers.vllm_cpu.worker.CPUWorkerExtension"


class CPUReplica(vLLMReplica):
    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.server_class = ray.remote(CPUServer)

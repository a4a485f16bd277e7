"""What verl loads by itself in each of its processes: the ``verl.plugins`` entry point.

It registers names; what is heavy is imported when a name is used. verl logs a plug-in's failure at debug
level and goes on, so ``lego_verl.workers.train`` checks that ``LOADED`` came true.
"""

from __future__ import annotations

import verl.workers.rollout.base as rollout_base
from verl.workers.rollout.replica import RolloutReplica, RolloutReplicaRegistry

from lego_verl.workers import platform

ROLLOUT_NAME = "transformers"
"""``actor_rollout_ref.rollout.name`` of this project's own rollout server."""


def _load_replica() -> type[RolloutReplica]:
    from lego_verl.workers.rollout.replica import TransformersReplica

    return TransformersReplica


platform.accept_gloo_alone()
RolloutReplicaRegistry.register(ROLLOUT_NAME, _load_replica)
rollout_base._ROLLOUT_REGISTRY[(ROLLOUT_NAME, "async")] = "lego_verl.workers.rollout.adapter.TransformersAdapter"
LOADED = True

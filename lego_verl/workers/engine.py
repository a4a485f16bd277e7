"""verl's FSDP2 engines, as this project needs them: for the device ``cpu``, which verl registers for cuda and npu
only, and with router replay on every device.

Loaded by ``actor_rollout_ref.model.external_lib`` in the processes that build an engine.
"""

from __future__ import annotations

from verl.workers.engine.base import EngineRegistry

from lego_verl.workers.router_replay.engine import FSDPEngineWithRouterReplay
from lego_verl.workers.value_engine import FSDPValueEngine

EngineRegistry.register(model_type="language_model", backend=["fsdp2"], device="cpu")(FSDPEngineWithRouterReplay)
EngineRegistry.register(model_type="value_model", backend=["fsdp2"], device="cpu")(FSDPValueEngine)
# verl refuses a second registration: its own engine would train on other experts without a word.
for backend in ("fsdp", "fsdp2"):
    EngineRegistry._engines["language_model"][backend]["cuda"] = FSDPEngineWithRouterReplay

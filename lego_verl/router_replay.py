"""Router replay is wired at both ends or not at all: half of it looks like it works, and trains other experts."""

from __future__ import annotations

from omegaconf import DictConfig, OmegaConf

from lego_verl.config import ConfigError, Family, LegoConfig

_RECORDED = "actor_rollout_ref.rollout.enable_rollout_routing_replay"
_ENGINES = ("megatron", "veomni")
"""verl's engines that can replay what the rollout has recorded."""


def check_router_replay(config: DictConfig, lego: LegoConfig) -> None:
    """Refuse a rollout whose expert routes nothing replays, a replay of what nothing records, and a dense model.

    Raises:
        ConfigError: one line that says what to change.
    """
    keys = [f"actor_rollout_ref.actor.{engine}.router_replay.mode" for engine in _ENGINES]
    replaying = [key for key in keys if OmegaConf.select(config, key) == "R3"]
    recorded = bool(config.actor_rollout_ref.rollout.enable_rollout_routing_replay)
    strategy = config.actor_rollout_ref.actor.strategy
    if recorded and not replaying:
        raise ConfigError(
            f"{_RECORDED}=true records expert routes that nothing replays: router_replay.mode=R3 is for the engines "
            f"{' and '.join(_ENGINES)}, and the actor is of {strategy}"
        )
    if replaying and not recorded:
        raise ConfigError(f"{replaying[0]}=R3 replays expert routes that nothing records: set {_RECORDED}=true")
    if recorded and lego.policy.kind == "tiny" and lego.policy.family is Family.dense:
        raise ConfigError(f"{_RECORDED}=true, and lego.policy.family=dense has no experts to choose among")

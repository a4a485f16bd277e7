"""Router replay is wired at both ends or not at all: half of it looks like it works, and trains other experts.

What concerns the model itself (has it experts, are they the same on both sides) is in ``model_check.py``.
"""

from __future__ import annotations

import re

from omegaconf import DictConfig, OmegaConf, open_dict

from lego_verl.config import ConfigError, Family, LegoConfig, RouterReplay

RECORDED = "actor_rollout_ref.rollout.enable_rollout_routing_replay"
_LEGO = "lego.router_replay"
_ENGINES = {"fsdp2": "fsdp_config", "megatron": "megatron", "veomni": "veomni"}
"""The actor's strategies whose engine can replay routes (fsdp2's is this project's), with the key of its settings."""
_SERVERS = {"transformers": ("cpu", "cuda"), "vllm": ("cuda",), "sglang": ("cuda",)}
"""Rollout servers that return routes, with the devices on which they do."""
_EXPERTS = re.compile(r"all-linear|expert|mlp|gate|up_proj|down_proj|\bw[123]\b|linear_fc")
"""Names in a LoRA's target modules that (may) take in an expert's weights or the router's."""
_FSDP_ENGINE = "lego_verl.workers.engine"
"""The module that makes this project's FSDP engine known: verl's own replays nothing, and does not say so."""


def wire_router_replay(config: DictConfig) -> None:
    """Set both ends as ``lego.router_replay`` says; nothing where it is not ``R3``."""
    if OmegaConf.select(config, _LEGO) not in (RouterReplay.R3, "R3"):
        return
    with open_dict(config):
        config.actor_rollout_ref.rollout.enable_rollout_routing_replay = True
        strategy, model = str(config.actor_rollout_ref.actor.strategy), config.actor_rollout_ref.model
        if strategy in _ENGINES:
            OmegaConf.update(config, f"actor_rollout_ref.actor.{_ENGINES[strategy]}.router_replay.mode", "R3")
        if strategy == "fsdp2" and model.external_lib is None:
            model.external_lib = _FSDP_ENGINE


def check_router_replay(config: DictConfig, lego: LegoConfig) -> None:
    """Refuse a rollout whose expert routes nothing replays, a replay of what nothing records, and a dense model.

    Raises:
        ConfigError: one line that says what to change.
    """
    engines = {key: f"actor_rollout_ref.actor.{settings}.router_replay.mode" for key, settings in _ENGINES.items()}
    replaying = {key: mode for key, mode in engines.items() if OmegaConf.select(config, mode) == "R3"}
    recorded = replays_routes(config)
    asked = f"{_LEGO}=R3" if lego.router_replay is RouterReplay.R3 else f"{RECORDED}=true"
    strategy = str(config.actor_rollout_ref.actor.strategy)
    if recorded and lego.policy.kind == "tiny" and lego.policy.family is Family.dense:
        raise ConfigError(f"{asked}, and lego.policy.family=dense has no experts to choose among: take policy=tiny_moe")
    if recorded and strategy not in engines:
        raise ConfigError(
            f"{asked}, and actor_rollout_ref.actor.strategy={strategy} has no engine that replays expert routes: take "
            f"{', '.join(engines)}"
        )
    if recorded and strategy not in replaying:
        raise ConfigError(
            f"{RECORDED}=true records expert routes that nothing replays, and the actor is of {strategy}: set "
            f"{_LEGO}=R3, or {engines[strategy]}=R3"
        )
    if replaying and not recorded:
        mode = next(iter(replaying.values()))
        raise ConfigError(f"{mode}=R3 replays expert routes that nothing records: set {_LEGO}=R3, or {RECORDED}=true")
    if recorded:
        _check_server(config, asked)
        _check_adapters(config, asked)
        if strategy == "fsdp2":
            _check_fsdp(config, asked)


def replays_routes(config: DictConfig) -> bool:
    """Whether the rollout is to record expert routes."""
    return bool(config.actor_rollout_ref.rollout.enable_rollout_routing_replay)


def _check_server(config: DictConfig, asked: str) -> None:
    server, device = str(config.actor_rollout_ref.rollout.name), str(config.trainer.device)
    if server not in _SERVERS:
        raise ConfigError(
            f"{asked}, and actor_rollout_ref.rollout.name={server} returns no expert routes: take {', '.join(_SERVERS)}"
        )
    if device not in _SERVERS[server]:
        raise ConfigError(
            f"{asked}, and actor_rollout_ref.rollout.name={server} returns no expert routes on "
            f"trainer.device={device}: take actor_rollout_ref.rollout.name=transformers"
        )


def _check_fsdp(config: DictConfig, asked: str) -> None:
    model = config.actor_rollout_ref.model
    if _FSDP_ENGINE not in (model.external_lib or ""):
        raise ConfigError(
            f"{asked}, and actor_rollout_ref.model.external_lib={model.external_lib} leaves verl's own FSDP engine, "
            f"which replays nothing: set it to {_FSDP_ENGINE}"
        )
    if model.enable_activation_offload and model.enable_gradient_checkpointing:
        raise ConfigError(
            f"{asked} does not go with actor_rollout_ref.model.enable_activation_offload and "
            "enable_gradient_checkpointing together: set one of them to false"
        )


def _check_adapters(config: DictConfig, asked: str) -> None:
    """Adapters are for attention: with some on the experts, a rollout that serves them unmerged routes by others."""
    model = config.actor_rollout_ref.model
    for rank, key in (("lora_rank", "target_modules"), ("lora.rank", "lora.target_modules")):
        if int(OmegaConf.select(model, rank) or 0) <= 0:
            continue
        targets = OmegaConf.select(model, key)
        names = [targets] if isinstance(targets, str) else list(targets or [])
        wide = next((str(name) for name in names if _EXPERTS.search(str(name))), None)
        if wide is not None:
            raise ConfigError(
                f"{asked}, and actor_rollout_ref.model.{key}={wide} puts LoRA on expert layers, which replay does not "
                "support: name those of attention, for instance [q_proj,k_proj,v_proj,o_proj]"
            )

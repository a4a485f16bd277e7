"""What a model's own configuration and tokenizer rule out, read before any weight is.

A model is described by what its ``config.json`` holds, as a mapping; nothing of transformers is needed.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import DictConfig
from tokenizers import Tokenizer

from lego_verl.config import ConfigError, LegoConfig
from lego_verl.router_replay import RECORDED, replays_routes

_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts", "moe_num_experts")
_TOP_K = ("num_experts_per_tok", "experts_per_token", "moe_top_k")
_LAYERS = ("num_hidden_layers", "n_layers")
_MASKING = ("vllm",)
"""Rollout servers in which verl leaves out the vocabulary's rows beyond the tokenizer's."""


def check_model_folder(config: DictConfig, lego: LegoConfig) -> None:
    """``check_model`` on a model that is a folder; one of a hub is looked at when verl has its configuration.

    Raises:
        ConfigError: one line that says what to change.
    """
    folder = Path(str(lego.policy.model or "")).expanduser()
    if not (folder / "config.json").is_file():
        return
    served = json.loads((folder / "config.json").read_text())
    overrides = config.actor_rollout_ref.model.override_config or {}
    trained = {**served, **dict(overrides.get("model_config", overrides))}
    tokens = None
    if (folder / "tokenizer.json").is_file():
        tokens = Tokenizer.from_file(str(folder / "tokenizer.json")).get_vocab_size(with_added_tokens=True)
    check_model(config, lego, trained, served=served, tokens=tokens)


def check_model(
    config: DictConfig,
    lego: LegoConfig,
    trained: Mapping[str, Any],
    *,
    served: Mapping[str, Any] | None = None,
    tokens: int | None = None,
) -> None:
    """Refuse what cannot work with this model.

    Args:
        trained: the model's configuration as the trainer builds it.
        served: as the rollout serves it, where that may be another.
        tokens: length of the tokenizer, added tokens among them.

    Raises:
        ConfigError: one line that says what to change.
    """
    if replays_routes(config):
        if routes_of(trained) is None:
            raise ConfigError(
                f"{RECORDED}=true, and the model ({_of(trained, ('model_type',))}) has no experts to choose among: set "
                "lego.router_replay=disabled"
            )
        if served is not None and routes_of(served) != routes_of(trained):
            raise ConfigError(
                f"{RECORDED}=true, and the rollout's model has {_told(served)}, the trainer's {_told(trained)}: remove "
                "them from actor_rollout_ref.model.override_config"
            )
    if tokens is not None:
        _check_vocabulary(config, lego, int(_of(trained, ("vocab_size",)) or tokens), tokens)


def _check_vocabulary(config: DictConfig, lego: LegoConfig, vocabulary: int, tokens: int) -> None:
    server = str(config.actor_rollout_ref.rollout.name)
    if tokens > vocabulary:
        raise ConfigError(
            f"the tokenizer has {tokens} tokens and the model's vocab_size is {vocabulary}: some have no row"
        )
    if vocabulary > tokens and server in _MASKING and not lego.policy.padded_vocabulary:
        raise ConfigError(
            f"the model's vocab_size={vocabulary} is not the tokenizer's {tokens}: with {server} verl samples among "
            "these alone, and the trainer's log-probabilities are over all: cut the model's embedding, or set "
            "lego.policy.padded_vocabulary=true where the other rows have no probability"
        )


def routes_of(model: Mapping[str, Any]) -> tuple[int, int, int] | None:
    """(layers, top_k, experts) of a mixture of experts, 0 for what is not said; None for a dense model."""
    layers, top_k, experts = (int(_of(model, names) or 0) for names in (_LAYERS, _TOP_K, _EXPERTS))
    return (layers, top_k, experts) if experts > 1 else None


def _told(model: Mapping[str, Any]) -> str:
    routes = routes_of(model)
    return "no experts" if routes is None else f"{routes[0]} layers, top {routes[1]} of {routes[2]} experts"


def _of(model: Mapping[str, Any], names: tuple[str, ...]) -> Any:
    """The first of these that a configuration has, in itself or in its part for text."""
    for part in (model, model.get("text_config") or {}):
        for name in names:
            if part.get(name) is not None:
                return part[name]
    return None

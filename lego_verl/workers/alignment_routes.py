"""Expert routes in a step's batch: how many rows were replayed, and how far the trainer's routers agree with them.

With router replay an engine of this project (``router_replay/engine.py``) says for every position and layer how many of
the recorded experts the trainer would have chosen itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from verl.utils.config import omega_conf_to_dataclass

AGREEMENT = "route_agreement"
"""The engine's field: (tokens, layers) int8 a sequence, -1 where nothing was replayed."""
NOT_RECORDED = -1
"""The mark of a position without routes (``router_replay/rows.py``)."""


def replays(config: Any) -> bool:
    """Whether the actor of a recipe replays routes."""
    replay = config.actor_rollout_ref.actor.get("fsdp_config", {}).get("router_replay") or {}
    return replay.get("mode", "disabled") == "R3"


def route_shape(config: Any) -> tuple[int, int]:
    """(decoder layers, experts a token) of a recipe's model. ``ValueError`` for a dense one."""
    model = omega_conf_to_dataclass(config.actor_rollout_ref.model).hf_config.get_text_config()
    for name in ("num_experts_per_tok", "num_experts_per_token", "experts_per_token", "moe_topk"):
        if getattr(model, name, None):
            return int(model.num_hidden_layers), int(getattr(model, name))
    raise ValueError(f"{type(model).__name__} does not say how many experts a token is sent to")


def agreed_share(agreement: Sequence[NDArray[np.integer[Any]]], top_k: int) -> float:
    """Share of the replayed choices that the trainer's routers would have made; NaN where nothing was replayed.

    Args:
        agreement: (tokens, layers) of each sequence.
    """
    known = np.concatenate([rows[rows >= 0] for rows in agreement])
    return float(known.mean()) / top_k if known.size else math.nan


def routes_of_loss_tokens(
    agreement: Sequence[NDArray[np.integer[Any]]],
    masks: Sequence[NDArray[np.bool_]],
    prompts: Sequence[int],
    top_k: int,
) -> dict[str, Any]:
    """How the positions that loss tokens were sampled at were routed.

    Args:
        agreement: (tokens, layers) of each row of the batch.
        masks: (response,) of each row, where a token carries loss.
        prompts: tokens of each row before its response.

    Returns:
        ``replayed_share`` of these positions, in layers that have experts; ``agreement`` over all layers, and
        ``agreement_by_layer``, by the number of the decoder layer. Layers of which nothing was replayed are left out.
    """
    # A token is sampled at the position before its own.
    rows = [row[np.flatnonzero(mask) + prompt - 1] for row, mask, prompt in zip(agreement, masks, prompts, strict=True)]
    at = np.concatenate(rows) if rows else np.empty((0, 0), np.int8)
    layers = [layer for layer in range(at.shape[1]) if (at[:, layer] >= 0).any()]
    if not layers:
        return {"replayed_share": 0.0, "agreement": math.nan, "agreement_by_layer": {}}
    return {
        "replayed_share": float((at[:, layers] >= 0).mean()),
        "agreement": agreed_share([at[:, layers]], top_k),
        "agreement_by_layer": {str(layer): agreed_share([at[:, layer]], top_k) for layer in layers},
    }

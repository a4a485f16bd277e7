"""Alignment: whether generation and training agree on the tokens, and how old the weights were."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Response

from lego_verl.dashboard.api.common import Run, opened, recipe_of, reply
from lego_verl.monitor import queries

router = APIRouter(prefix="/api/runs/{run}")

_GUARDS = ("min_pearson", "min_effective_share", "canary", "canary_tolerance", "require_proof", "min_trained")


@router.get("/alignment")
def alignment(run: Run) -> Response:
    """Metrics by name, each ``[[step, value], …]``; ``staleness`` by step; the recipe's bounds and correction."""
    with opened(run) as db:
        found = queries.alignment(db)
    recipe = recipe_of(run)
    guards: dict[str, Any] = {name: recipe.get(f"lego.guard.{name}") for name in _GUARDS}
    if guards["canary_tolerance"] is None:  # as lego_verl/workers/sync_canary.py takes it
        guards["canary_tolerance"] = 1e-4 if recipe.get("actor_rollout_ref.rollout.dtype") == "float32" else 0.2
    prefix = "algorithm.rollout_correction."
    correction = {key.removeprefix(prefix): value for key, value in recipe.items() if key.startswith(prefix)}
    about = {
        "overlapping": "async" in str(recipe.get("trainer.v1.trainer_mode", "")),
        "router_replay": recipe.get("lego.router_replay"),
        "version_span": recipe.get("lego.trial.version_span"),
        "off_policy_steps": recipe.get("trainer.v1.sampler.max_off_policy_threshold"),
    }
    return reply({**found, "guards": guards, "correction": correction, **about})

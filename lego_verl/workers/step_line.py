"""A step's line in ``metrics.jsonl``, and what of it goes to verl's loggers. The names are in docs/01-first-run.md."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from lego_verl.workers.alignment import flat
from lego_verl.workers.step_account import StepAccount

_LOGGED = (
    *("solve_rate", "reward", "proof_provenance", "proof_context", "trained", "dropped", "retried", "refilled"),
    *("small_groups", "zero_variance_groups", "in_flight", "monitoring_share"),
)
_FOR_PEOPLE = ("alignment", "trained_tokens", "reward_agreement")
"""Phases of a step in which the trainer does what is for people; that of alignment guards the step as well."""


def step_line(
    account: StepAccount,
    metrics: Mapping[str, Any],
    *,
    alignment: Mapping[str, Any] | None,
    agreement: Mapping[str, float] | None = None,
    heldout: float | None,
    seconds: float,
    timing: Mapping[str, float],
    reporting: float = 0.0,
) -> dict[str, Any]:
    """What is written of a step.

    Args:
        metrics: verl's, of the step.
        alignment: ``alignment_batch.step_alignment``; None where the rollout's log-probabilities are taken for the
            trainer's own (``rollout_correction.bypass_mode``), so that there is nothing to compare.
        agreement: ``reward_agreement.step_agreement``.
        seconds: of the whole step.
        timing: verl's, by phase.
        reporting: seconds of the trainer that went into telling the step before.
    """
    monitoring = {"trainer": reporting + sum(timing.get(name, 0.0) for name in _FOR_PEOPLE), **account.monitoring}
    return {
        "step": account.step,
        "solve_rate": account.solve_rate,
        "heldout_solve_rate": heldout,
        "reward": account.reward,
        "outcomes": account.outcomes,
        "pearson": metrics.get("training/rollout_actor_probs_pearson_corr"),
        "proof_provenance": account.proof_provenance,
        "proof_context": account.proof_context,
        "loss_tokens": account.loss_tokens,
        "sampled_tokens": account.sampled_tokens,
        "submitted": account.submitted,
        "trained": account.trained,
        "dropped": account.dropped,
        "in_flight": account.in_flight,
        "retried": account.retried,
        "refilled": account.refilled,
        "dropped_why": account.dropped_why,
        "groups": account.groups,
        "small_groups": account.small_groups,
        "zero_variance_groups": account.zero_variance_groups,
        "evicted_groups": account.evicted_groups,
        "harnesses": account.harnesses,
        "calls": account.calls,
        "segments": account.segments,
        "splits": account.splits,
        "entropy": metrics.get("actor/entropy"),
        "learning_rate": metrics.get("actor/lr"),
        "gradient_norm": metrics.get("actor/grad_norm"),
        **{name.replace("/", "_"): _plain(value) for name, value in metrics.items() if name.startswith("canary/")},
        "alignment": _plain(alignment),
        "reward_agreement": dict(agreement or {}),
        "monitoring_seconds": monitoring,
        "monitoring_share": sum(monitoring.values()) / seconds if seconds else None,
        "seconds": seconds,
        "seconds_by_phase": {**account.seconds, **{f"step/{name}": value for name, value in timing.items()}},
    }


def _plain(values: Any) -> Any:
    """Ready for JSON, which knows no NaN: what there is nothing to say of is null."""
    if isinstance(values, Mapping):
        return {name: _plain(value) for name, value in values.items()}
    return None if isinstance(values, float) and math.isnan(values) else values


def logged(line: Mapping[str, Any]) -> dict[str, float]:
    """The part of a step's line that verl's loggers get, under ``lego/`` and ``alignment/``."""
    found = {f"lego/{name}": line[name] for name in _LOGGED if line[name] is not None}
    found |= {f"lego/outcome/{outcome}": count for outcome, count in line["outcomes"].items()}
    for harness, counts in line["harnesses"].items():
        found |= {f"lego/harness/{harness}/{name}": value for name, value in counts.items()}
    found |= {f"lego/reward_agreement/{name}": value for name, value in line["reward_agreement"].items()}
    if line["alignment"]:
        found |= flat(line["alignment"])
    return found

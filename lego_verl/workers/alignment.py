"""How far the policy that sampled and the policy that is trained agree, on the tokens that carry loss.

``p`` is a token's probability under the trainer's weights before the update (verl's ``old_log_probs``), ``q`` the one
it was sampled with (``rollout_log_probs``), ``r = p / q`` its importance weight. All figures are of sampled tokens, so
they are expectations under the rollout's policy. Only numpy: verl's own names for some of them are in brackets.

The correlation of probabilities is from https://arxiv.org/abs/2506.13585 (verl/utils/debug/metrics.py), the three
estimators of the divergence from http://joschu.net/blog/kl-approx.html.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

QUANTILES = (0.01, 0.5, 0.99)
"""Of the importance weights; the least and the largest stand beside them."""
SORTED = 200_000
"""Tokens that ranks and quantiles are taken from, at most: of more, every so many-th. The rest is of all tokens."""
_BOUND = 20.0
"""Of a log-ratio before it is exponentiated (verl's ``SAFETY_BOUND``): e^20 is no weight that anyone trains with."""

Floats = NDArray[np.floating[Any]]


def alignment(trainer: Floats, rollout: Floats) -> dict[str, float]:
    """Compare log-probabilities of the same tokens.

    Args:
        trainer: (tokens,) log p.
        rollout: (tokens,) log q, as the rollout engine reported it.

    Returns:
        ``tokens``; of log-probabilities ``pearson`` and ``spearman``; of probabilities ``pearson_probabilities``
        (``training/rollout_actor_probs_pearson_corr``), ``difference_mean`` and ``difference_max``
        (``training/rollout_probs_diff_*``); in nats a token ``k1`` (``rollout_corr/kl``), ``k2`` and ``k3``
        (``rollout_corr/k3_kl``), estimates of KL(q ‖ p); ``log_ratio_std``, the deviation of log r, which
        ``lego.correction.log_ratio_std`` is told; the importance weights' ``weight_min``, ``weight_q01``,
        ``weight_q50``, ``weight_q99``, ``weight_max``; and ``effective_share``, the effective sample size
        (sum r)² / sum r² as a share of the tokens (``rollout_corr/rollout_is_eff_sample_size``, where nothing is
        truncated). A correlation is NaN where one of the sides is constant; of no token everything but ``tokens`` is.

    Raises:
        ValueError: when the sides differ in shape, or a log-probability is not finite.
    """
    if trainer.shape != rollout.shape or trainer.ndim != 1:
        raise ValueError(f"log-probabilities of shape {trainer.shape} and {rollout.shape} are not of the same tokens")
    p, q = trainer.astype(np.float64), rollout.astype(np.float64)
    if bad := int((~np.isfinite(p) | ~np.isfinite(q)).sum()):
        raise ValueError(f"{bad} of {len(p)} loss tokens have a log-probability that is not finite")
    if not len(p):
        return {"tokens": 0, **dict.fromkeys(NAMES, math.nan)}
    ratio = np.clip(p - q, -_BOUND, _BOUND)
    weights = np.exp(ratio)
    of_p, of_q = np.exp(p), np.exp(q)
    differences = np.abs(of_p - of_q)
    some = slice(None, None, -(-len(p) // SORTED))
    low, middle, high = np.quantile(weights[some], QUANTILES)
    return {
        "tokens": len(p),
        "pearson": correlation(p, q),
        "spearman": correlation(_ranks(p[some]), _ranks(q[some])),
        "pearson_probabilities": correlation(of_p, of_q),
        "difference_mean": float(differences.mean()),
        "difference_max": float(differences.max()),
        "k1": float(-ratio.mean()),
        "k2": float(np.square(ratio).mean() / 2),
        "k3": float((np.expm1(ratio) - ratio).mean()),
        "log_ratio_std": float(ratio.std()),
        "weight_min": float(weights.min()),
        "weight_q01": float(low),
        "weight_q50": float(middle),
        "weight_q99": float(high),
        "weight_max": float(weights.max()),
        "effective_share": float(weights.sum() ** 2 / np.square(weights).sum() / len(weights)),
    }


NAMES = (
    *("pearson", "spearman", "pearson_probabilities", "difference_mean", "difference_max", "k1", "k2", "k3"),
    *("log_ratio_std", "weight_min", "weight_q01", "weight_q50", "weight_q99", "weight_max", "effective_share"),
)
"""What ``alignment`` says beside ``tokens``."""


def by(
    labels: NDArray[np.integer[Any]], names: Mapping[int, str], trainer: Floats, rollout: Floats
) -> dict[str, dict[str, float]]:
    """``alignment`` of the tokens of each label that has any, by its name, in the order of ``names``.

    Args:
        labels: (tokens,) what a token belongs to.
    """
    masks = {name: labels == label for label, name in names.items()}
    return {name: alignment(trainer[mask], rollout[mask]) for name, mask in masks.items() if mask.any()}


def correlation(a: Floats, b: Floats) -> float:
    """Pearson's coefficient; NaN where one of the sides is constant, or of fewer than two values."""
    if len(a) < 2:
        return math.nan
    a, b = a - a.mean(), b - b.mean()
    norm = math.sqrt(float(a @ a)) * math.sqrt(float(b @ b))
    return min(1.0, max(-1.0, float(a @ b) / norm)) if norm > 0 else math.nan


def _ranks(values: Floats) -> Floats:
    """(values,) ranks from 0; equal values share the mean of theirs."""
    _, of_value, counts = np.unique(values, return_inverse=True, return_counts=True)
    after = np.cumsum(counts)
    means = after - (counts + 1) / 2
    ranks: Floats = means[of_value]
    return ranks


def flat(nested: Mapping[str, Any]) -> dict[str, float]:
    """A step's alignment (``alignment_batch``) as flat metrics for a logger: the whole, and a few by lag."""
    whole = {f"alignment/{name}": value for name, value in nested["overall"].items()}
    for lag, values in nested["by_lag"].items():
        few = ("tokens", "pearson_probabilities", "k3", "effective_share")
        whole |= {f"alignment/lag_{lag}/{name}": values[name] for name in few}
    if "routes" in nested:
        whole |= {f"alignment/routes/{name}": nested["routes"][name] for name in ("replayed_share", "agreement")}
    return {name: value for name, value in whole.items() if value is not None and not math.isnan(value)}

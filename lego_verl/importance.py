"""What importance weights of whole sequences are worth: their effective sample size, foreseen from two numbers.

Write ``s`` for the standard deviation, over tokens, of the log-ratio of the trainer's probability to the rollout's,
and ``T`` for the tokens of a sequence. If the log-ratios are independent, the sequence's log-weight, their sum, is
about normal with variance ``v = s^2 T``; its mean is ``-v / 2``, since weights average to 1 under the rollout. Weights
``w`` then have the effective sample size ``n E[w]^2 / E[w^2]``, which without truncation is ``n exp(-v)``. verl cuts
weights at an upper bound, or leaves those outside of two bounds out (verl/trainer/ppo/rollout_corr_helper.py); the
moments of a normal's exponential between bounds are known, so that is a formula as well.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from statistics import NormalDist

from omegaconf import DictConfig

from lego_verl.config import ConfigError, LegoConfig

ASSUMED_STD = {"float32": 1e-5, "fp32": 1e-5, "float16": 0.004, "half": 0.004, "fp16": 0.004}
"""``s`` by the rollout's number format, where the recipe does not say; ``BFLOAT16_STD`` for all others."""
BFLOAT16_STD = 0.024
"""Between a trainer in float32 and the same model in bfloat16."""
LAG_STD = 0.1
"""Added (in squares) where trials are sampled while the weights change."""
_CERTAIN = 1e-9
"""A variance under which all weights are the same."""


def log_ratio_std(config: DictConfig, lego: LegoConfig) -> float:
    """``s`` of a recipe: what it says, or what is assumed of its rollout's number format and of its lag."""
    if lego.correction.log_ratio_std is not None:
        return lego.correction.log_ratio_std
    of_format = ASSUMED_STD.get(str(config.actor_rollout_ref.rollout.dtype), BFLOAT16_STD)
    lags = "async" in str(config.trainer.v1.trainer_mode)
    return math.hypot(of_format, LAG_STD) if lags else of_format


def effective_share(variance: float, bounds: tuple[float, float], *, cut: bool) -> float:
    """Effective sample size of sequence weights, as a share of the sequences.

    Args:
        variance: ``v = s^2 T`` of the log-weight.
        bounds: the least and the greatest weight.
        cut: a weight above the greatest becomes the greatest (truncated); else it is left out (masked).
    """
    if variance < _CERTAIN:
        return 1.0
    low, high = bounds
    above = 1 - _share_below(high, 0, variance) if cut else 0.0
    first, second = (
        math.exp((order * order - order) * variance / 2)
        * (_share_below(high, order, variance) - _share_below(low, order, variance))
        + (high**order * above if above else 0.0)
        for order in (1, 2)
    )
    return first * first / second if second > 0 else 0.0


def _share_below(weight: float, order: int, variance: float) -> float:
    """P(w < weight) for order 0; for order k the same under the measure that is tilted by ``w^k``."""
    if weight <= 0:
        return 0.0
    if math.isinf(weight):
        return 1.0
    return NormalDist(-variance / 2 + order * variance, math.sqrt(variance)).cdf(math.log(weight))


def check_importance(config: DictConfig, lego: LegoConfig) -> None:
    """Refuse importance weights of whole sequences under which next to no trial would count.

    Raises:
        ConfigError: one line with the figure.
    """
    rollout = config.actor_rollout_ref.rollout
    tokens = min(lego.harness.token_limit, int(rollout.response_length))
    std = log_ratio_std(config, lego)
    for key, value, bounds, cut in _of_sequences(config):
        share, least = effective_share(std**2 * tokens, bounds, cut=cut), lego.correction.min_effective_share
        if share < least:
            raise ConfigError(
                f"{key}={value} over up to {tokens} tokens whose log-ratios deviate by {std:.3g} leaves an effective "
                f"sample size of {share:.2g} of the trials, under lego.correction.min_effective_share={least:g}: take "
                "correction=token_tis, or set lego.correction.log_ratio_std to what was measured"
            )


def _of_sequences(config: DictConfig) -> Iterator[tuple[str, str, tuple[float, float], bool]]:
    """The weights of whole sequences that a recipe asks for: key, value, bounds, and whether they are cut there."""
    correction, prefix = config.algorithm.rollout_correction, "algorithm.rollout_correction"
    if not correction:
        return
    if correction.get("rollout_is") == "sequence":
        low, high = bounds_of(correction.rollout_is_threshold, lower=0.0)
        yield f"{prefix}.rollout_is", "sequence", (low, high), low == 0.0
    modes = [mode.strip() for mode in str(correction.get("rollout_rs") or "").split(",")]
    if "seq_sum_k1" in modes:
        thresholds = str(correction.get("rollout_rs_threshold")).split(",")
        low, high = bounds_of(thresholds[modes.index("seq_sum_k1") % len(thresholds)])
        # verl bounds the inverse of the weight.
        yield f"{prefix}.rollout_rs", "seq_sum_k1", (1 / high, 1 / low), False


def bounds_of(threshold: str | float, *, lower: float | None = None) -> tuple[float, float]:
    """verl's threshold, ``upper`` or ``lower_upper``; a lower bound that is not said is ``lower``, or 1 / upper.

    Raises:
        ConfigError: for what is no number.
    """
    low, _, high = str(threshold).strip().rpartition("_")
    try:
        upper = float(high)
        return (float(low) if low else 1 / upper if lower is None else lower), upper
    except (ValueError, ZeroDivisionError) as error:
        raise ConfigError(f"algorithm.rollout_correction: {threshold} is no threshold (2.0, or 0.5_2.0)") from error

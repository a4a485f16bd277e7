"""The foreseen effective sample size is that of drawn weights."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np
import pytest

from lego_verl.compose import compose_recipe
from lego_verl.config import ConfigError, typed
from lego_verl.importance import BFLOAT16_STD, LAG_STD, bounds_of, effective_share, log_ratio_std


def drawn(variance: float) -> np.ndarray:
    """Weights whose logarithm is normal and that average to 1, at evenly spaced quantiles: no chance."""
    count = 200_001
    ranks = (np.arange(count) + 0.5) / count
    quantiles = np.array([NormalDist().inv_cdf(rank) for rank in ranks])
    return np.exp(-variance / 2 + math.sqrt(variance) * quantiles)


@pytest.mark.parametrize("variance", [0.01, 1.0, 4.0])
def test_truncated_and_masked_weights(variance: float) -> None:
    weights = drawn(variance)

    def share(values: np.ndarray) -> float:
        return float(values.mean() ** 2 / (values**2).mean())

    assert effective_share(variance, (0, 2), cut=True) == pytest.approx(share(np.minimum(weights, 2)), rel=1e-3)
    kept = np.where((weights >= 0.5) & (weights <= 2), weights, 0)
    assert effective_share(variance, (0.5, 2), cut=False) == pytest.approx(share(kept), rel=1e-3)


def test_without_bounds_it_is_the_exponential_of_the_variance() -> None:
    assert effective_share(3.0, (0, math.inf), cut=True) == pytest.approx(math.exp(-3))
    assert effective_share(0.0, (0, 2), cut=True) == 1.0


def test_longer_sequences_are_worth_less() -> None:
    shares = [effective_share(BFLOAT16_STD**2 * tokens, (0, 2), cut=True) for tokens in (100, 1000, 10_000, 100_000)]
    assert shares == sorted(shares, reverse=True)
    assert shares[0] > 0.9
    assert shares[-1] < 0.01


@pytest.mark.parametrize(
    ("overrides", "std"),
    [
        ([], 1e-5),
        (["hardware=8gpu"], BFLOAT16_STD),
        (["hardware=8gpu", "correction.log_ratio_std=0.5"], 0.5),
        (["trainer.v1.trainer_mode=colocate_async"], math.hypot(1e-5, LAG_STD)),
    ],
)
def test_what_is_assumed_of_a_recipe(overrides: list[str], std: float) -> None:
    config = compose_recipe(overrides)
    assert log_ratio_std(config, typed(config)) == pytest.approx(std)


def test_thresholds_are_read_as_verl_reads_them() -> None:
    assert bounds_of(2.0) == (0.5, 2.0)
    assert bounds_of("4", lower=0.0) == (0.0, 4.0)
    assert bounds_of("1.0e-9_5.0") == (1e-9, 5.0)
    with pytest.raises(ConfigError, match="is no threshold"):
        bounds_of("none")

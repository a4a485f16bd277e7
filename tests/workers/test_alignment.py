"""The figures by which rollout and trainer are compared, against their definitions written out."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from verl.protocol import DataProto
from verl.trainer.ppo.rollout_corr_helper import compute_offpolicy_metrics, compute_rollout_correction_weights
from verl.utils.debug.metrics import calculate_debug_metrics

from lego_verl.workers.alignment import NAMES, SORTED, alignment, by, flat
from lego_verl.workers.alignment_batch import Row, lags, rows_of, step_alignment, version_runs

LOGPROB = st.floats(-9.0, -(2.0**-10), allow_nan=False, width=32)
PAIRS = st.lists(st.tuples(LOGPROB, LOGPROB), min_size=2, max_size=40)


def columns(pairs: list[tuple[float, float]]) -> tuple[np.ndarray, np.ndarray]:
    both = np.array(pairs, dtype=np.float32)
    return both[:, 0], both[:, 1]


def plain_pearson(a: list[float], b: list[float]) -> float:
    """The textbook's, one value at a time."""
    mean_a, mean_b = sum(a) / len(a), sum(b) / len(b)
    top = sum((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True))
    bottom = math.sqrt(sum((x - mean_a) ** 2 for x in a) * sum((y - mean_b) ** 2 for y in b))
    return top / bottom if bottom else math.nan


def plain_ranks(values: list[float]) -> list[float]:
    """Of each value: how many are less, and half of the others that are equal."""
    return [sum(v < x for v in values) + (sum(v == x for v in values) - 1) / 2 for x in values]


@given(PAIRS)
def test_each_figure_is_what_its_definition_says(pairs: list[tuple[float, float]]) -> None:
    p, q = columns(pairs)
    found = alignment(p, q)
    tokens = [(float(x), float(y)) for x, y in zip(p, q, strict=True)]
    ratios = [math.exp(x - y) for x, y in tokens]
    differences = [abs(math.exp(x) - math.exp(y)) for x, y in tokens]
    mean, shift = len(tokens), sum(x - y for x, y in tokens) / len(tokens)
    expected = {
        "tokens": mean,
        "difference_mean": sum(differences) / mean,
        "difference_max": max(differences),
        "k1": sum(y - x for x, y in tokens) / mean,
        "k2": sum((x - y) ** 2 / 2 for x, y in tokens) / mean,
        "k3": sum(r - 1 - math.log(r) for r in ratios) / mean,
        "log_ratio_std": (sum(((x - y) - shift) ** 2 for x, y in tokens) / mean) ** 0.5,
        "weight_min": min(ratios),
        "weight_max": max(ratios),
        "effective_share": sum(ratios) ** 2 / sum(r * r for r in ratios) / mean,
    }
    assert {name: found[name] for name in expected} == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert found["weight_min"] <= found["weight_q01"] <= found["weight_q50"] <= found["weight_q99"]
    assert found["weight_q99"] <= found["weight_max"]
    assert set(found) == {"tokens", *NAMES}


@given(PAIRS)
def test_correlations_are_the_textbooks(pairs: list[tuple[float, float]]) -> None:
    p, q = columns(pairs)
    found = alignment(p, q)
    a, b = p.tolist(), q.tolist()
    # Of sides that hardly vary the coefficient is what rounding makes of it.
    if min(np.ptp(p), np.ptp(q)) > 1e-2:
        assert found["pearson"] == pytest.approx(plain_pearson(a, b), abs=1e-6)
    if min(np.ptp(np.exp(p)), np.ptp(np.exp(q))) > 1e-2:
        probabilities = [math.exp(x) for x in a], [math.exp(x) for x in b]
        assert found["pearson_probabilities"] == pytest.approx(plain_pearson(*probabilities), abs=1e-6)
    assert found["spearman"] == pytest.approx(plain_pearson(plain_ranks(a), plain_ranks(b)), abs=1e-9, nan_ok=True)


@given(PAIRS, st.integers(0, 2**32 - 1))
def test_nothing_depends_on_the_order_of_tokens(pairs: list[tuple[float, float]], seed: int) -> None:
    p, q = columns(pairs)
    order = np.random.default_rng(seed).permutation(len(p))
    there, here = alignment(p[order], q[order]), alignment(p, q)
    # Of sides that hardly vary these are what rounding makes of them.
    for name in ("pearson", "pearson_probabilities"):
        del there[name], here[name]
    assert there == pytest.approx(here, rel=1e-6, abs=1e-9, nan_ok=True)


def test_the_estimators_are_of_one_divergence() -> None:
    """KL(q ‖ p) of two distributions that are near each other, from what q samples."""
    q, p = np.array([0.5, 0.3, 0.2]), np.array([0.45, 0.33, 0.22])
    drawn = np.random.default_rng(0).choice(3, 200_000, p=q)
    found = alignment(np.log(p)[drawn], np.log(q)[drawn])
    divergence = float((q * np.log(q / p)).sum())
    assert found["k1"] == pytest.approx(divergence, rel=0.1)
    assert found["k2"] == pytest.approx(divergence, rel=0.05)
    assert found["k3"] == pytest.approx(divergence, rel=0.05)


def test_verls_own_figures_are_among_them() -> None:
    """By name in the docstring; when this fails, one of the two has changed what it counts."""
    generator = torch.Generator().manual_seed(0)
    q = -3 * torch.rand(4, 9, generator=generator)
    p = q + 0.1 * torch.randn(4, 9, generator=generator)
    mask = torch.rand(4, 9, generator=generator) < 0.6
    batch = {"old_log_probs": p, "rollout_log_probs": q, "response_mask": mask, "responses": torch.zeros(4, 9)}
    verl = calculate_debug_metrics(DataProto.from_dict(batch))
    corrected = compute_offpolicy_metrics(p, q, mask)
    _, weights = compute_rollout_correction_weights((p - q), mask, rollout_is="token", rollout_is_threshold=1e9)
    found = alignment(p[mask].numpy(), q[mask].numpy())
    assert {
        "pearson_probabilities": verl["training/rollout_actor_probs_pearson_corr"],
        "difference_mean": verl["training/rollout_probs_diff_mean"],
        "difference_max": verl["training/rollout_probs_diff_max"],
        "k1": corrected["kl"],
        "k3": corrected["k3_kl"],
        "effective_share": weights["rollout_is_eff_sample_size"],
    } == pytest.approx(
        {
            name: found[name]
            for name in ("pearson_probabilities", "difference_mean", "difference_max", "k1", "k3", "effective_share")
        },
        abs=1e-5,
    )


def test_equal_sides_agree_wholly_and_constant_ones_say_nothing() -> None:
    same = np.linspace(-5, -0.1, 50, dtype=np.float32)
    found = alignment(same, same)
    assert (found["pearson"], found["spearman"], found["effective_share"]) == pytest.approx((1, 1, 1))
    assert found["k1"] == found["k3"] == found["difference_max"] == 0.0
    zeros = alignment(same, np.zeros_like(same))
    assert math.isnan(zeros["pearson"]), "log-probabilities that are all 0 must trip a guard, and NaN does"
    assert alignment(np.array([-900.0]), np.array([0.0]))["weight_min"] == pytest.approx(math.exp(-20))


@pytest.mark.parametrize("bad", [math.nan, -math.inf])
def test_what_is_not_finite_is_refused(bad: float) -> None:
    with pytest.raises(ValueError, match="1 of 2 loss tokens have a log-probability that is not finite"):
        alignment(np.array([-1.0, bad]), np.array([-1.0, -1.0]))
    with pytest.raises(ValueError, match="not of the same tokens"):
        alignment(np.array([-1.0]), np.array([-1.0, -1.0]))


def row(harness: str = "h", segment: int = 0, *, prompt: int = 10, versions: Any = None, shift: float = 0.0) -> Row:
    """Eight tokens, of which the odd ones carry loss."""
    q = np.linspace(-2, -0.1, 8, dtype=np.float32)
    mask = np.arange(8) % 2 == 1
    return Row(q + shift, q, mask, prompt, segment, harness, versions or [(4, 4)])


def test_tokens_are_told_apart_by_what_they_belong_to() -> None:
    rows = [
        row("a", 0, versions=[(2, 1), (4, 3)], shift=0.1),
        row("b", 1, prompt=251),
        row("b", 7, prompt=70_000, versions=[(3, 4)]),
    ]
    found = step_alignment(rows, version=4)
    counts = {kind: {name: values["tokens"] for name, values in found[kind].items()} for kind in found if "by_" in kind}
    assert counts == {
        "by_harness": {"a": 4, "b": 8},
        "by_segment": {"0": 4, "1": 4, "3+": 4},
        "by_position": {"0": 6, "256": 2, "65536": 4},
        "by_lag": {"0": 7, "1": 4, "2": 1},
    }
    assert found["overall"]["tokens"] == 12
    assert found["by_harness"]["a"]["k1"] == pytest.approx(-0.1, abs=1e-6)
    assert found["by_lag"]["2"]["k1"] == pytest.approx(-0.1, abs=1e-6)
    assert found["by_lag"]["1"]["k1"] == 0.0


def test_what_carries_no_loss_does_not_count() -> None:
    """Nor does it have to be a number: the engine gives none for context."""
    good = row()
    odd = Row(np.where(good.mask, good.trainer, np.nan), good.rollout, good.mask, 10, 0, "h", good.versions)
    assert step_alignment([odd], version=4) == step_alignment([good], version=4)
    with pytest.raises(ValueError, match="versions are known of 3 tokens, and 4 carry loss"):
        lags(row(versions=[(1, 3)]), 4)


def test_a_step_without_loss_tokens_has_no_figures() -> None:
    found = step_alignment([], version=4)
    assert found["overall"]["tokens"] == 0
    assert math.isnan(found["overall"]["effective_share"])
    assert found["by_lag"] == {}
    assert flat(found) == {"alignment/tokens": 0}


@given(st.lists(st.integers(0, 3), max_size=30))
def test_runs_of_versions_are_the_versions(versions: list[int]) -> None:
    runs = version_runs(np.array(versions, dtype=np.int32))
    assert [version for version, count in runs for _ in range(count)] == versions
    assert all(count > 0 for _, count in runs)
    assert all(before != after for (before, _), (after, _) in pairwise(runs))


def test_rows_are_read_from_verls_queue_and_padding_is_left_out() -> None:
    def nested(*rows: list[float]) -> torch.Tensor:
        return torch.nested.as_nested_tensor([torch.tensor(row) for row in rows], layout=torch.jagged)

    extra = {"harness": "h", "version_runs": [(1, 1), (2, 1)]}
    data = {
        "old_log_probs": nested([-1.0, 0.0, -2.0], [-9.0]),
        "rollout_log_probs": nested([-1.5, 0.0, -2.5], [0.0]),
        "response_mask": nested([1, 0, 1], [0]),
        "extra_fields": [extra, extra],
    }
    tags = [{"prompt_len": 5}, {"prompt_len": 127, "is_padding": True}]
    (read,) = rows_of(data, ["uid_3_2", "padding_0_0"], tags)
    assert (read.segment, read.harness, read.prompt) == (2, "h", 5)
    assert read.trainer[read.mask].tolist() == [-1.0, -2.0]
    assert lags(read, 2).tolist() == [1, 0]
    assert flat(step_alignment([read], 2))["alignment/lag_1/k3"] == pytest.approx(math.expm1(0.5) - 0.5)


def test_labels_keep_their_order_and_those_without_tokens_are_left_out() -> None:
    p = np.array([-1.0, -2.0, -3.0])
    found = by(np.array([10, 2, 2]), {2: "two", 3: "three", 10: "ten"}, p, p)
    assert {name: values["tokens"] for name, values in found.items()} == {"two": 2, "ten": 1}
    assert list(found) == ["two", "ten"]


def test_of_many_tokens_ranks_and_quantiles_are_of_some() -> None:
    generator = np.random.default_rng(0)
    q = -3 * generator.random(3 * SORTED, dtype=np.float32)
    p = q + np.float32(0.2) * generator.standard_normal(len(q), dtype=np.float32)
    found, third = alignment(p, q), alignment(p[::3], q[::3])
    for name in ("spearman", "weight_q01", "weight_q50", "weight_q99"):
        assert found[name] == third[name]
    assert found["tokens"] == 3 * SORTED
    assert found["weight_max"] >= third["weight_max"]
    assert found["pearson"] != third["pearson"]

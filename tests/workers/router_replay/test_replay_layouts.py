"""Batches in other layouts, routes with gaps, sequences over two ranks, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra cpu is not installed")
pytest.importorskip("verl", reason="the extra cpu is not installed")

from engine_jobs import differences, expected  # noqa: E402
from tiny_mixtures import EXPERTS, gradients, logprobs, moe_layers  # noqa: E402

TOLERANCE = 1e-5


def test_micro_batches_of_fixed_size_and_bucketed_lengths(generated: dict[str, Any], results: dict[str, Any]) -> None:
    found, result = generated["qwen3_moe"], results["fixed"]
    assert max(differences(found, result)) < TOLERANCE
    model, routes = expected(found)
    for name, gradient in gradients(model, found["sequences"], routes).items():
        torch.testing.assert_close(result["gradients"][name], gradient, atol=TOLERANCE, rtol=0, msg=name)


def test_routes_of_two_bytes_are_the_same(results: dict[str, Any]) -> None:
    narrow, wide = results["qwen3_moe/packed"], results["wide"]
    assert all(torch.equal(a, b) for a, b in zip(narrow["logprobs"], wide["logprobs"], strict=True))


def test_rows_that_were_not_recorded_are_routed_natively(generated: dict[str, Any], results: dict[str, Any]) -> None:
    found, result = generated["qwen3_moe"], results["gaps"]
    assert not isinstance(result, str), result
    model, routes = expected(found)
    for ids, rows, row in zip(found["sequences"], routes, result["logprobs"], strict=True):
        rows[3:9] = -1
        torch.testing.assert_close(row, logprobs(model, ids, rows).detach(), atol=TOLERANCE, rtol=0)
    missing = sum(6 + 1 for _ in found["sequences"]) * len(moe_layers(model))
    assert result["counts"]["router_replay/rows"] - result["counts"]["router_replay/replayed_rows"] == missing


def test_ulysses_ranks_take_the_routes_of_their_tokens(results: dict[str, Any]) -> None:
    result = results["ulysses"]
    assert not isinstance(result, str), result
    seen = 0
    for rank in result["ranks"]:
        ids, rows = rank["inputs"]
        real = rows[:, 0, 0] != -1
        assert len(ids) == len(rows)
        assert torch.equal(rows[real][:, 2, 1], (ids[real] + 1) % EXPERTS)
        seen += int(real.sum())
    assert seen == sum(result["tokens"]), "every token once, between both ranks"


def test_a_pass_with_its_sequence_over_two_ranks(generated: dict[str, Any], results: dict[str, Any]) -> None:
    """verl's Ulysses layout, and attention of this test's own in place of flash-attention."""
    found, result = generated["qwen3_moe"], results["ulysses pass"]
    assert max(differences(found, result)) < TOLERANCE
    model, routes = expected(found)
    for name, gradient in gradients(model, found["sequences"], routes).items():
        torch.testing.assert_close(result["gradients"][name], gradient, atol=TOLERANCE, rtol=0, msg=name)
    packed = results["qwen3_moe/packed"]["agreement"]
    assert all(torch.equal(a, b) for a, b in zip(result["agreement"], packed, strict=True))


@pytest.mark.parametrize(
    ("job", "words"),
    [
        ("no routes", "without routed_experts"),
        ("short", "have routes of"),
        ("layers", "routes of 2 layers and 2 experts"),
        ("experts", "name expert 9, and the model has 8"),
        ("R2", "set it to R3 or disabled"),
        ("offload", "switch one of them off"),
    ],
)
def test_what_cannot_be_replayed_is_refused_in_one_line(job: str, words: str, results: dict[str, Any]) -> None:
    assert isinstance(results[job], str)
    assert words in results[job]
    assert "\n" not in results[job]


def test_verl_takes_this_engine_on_every_device() -> None:
    """verl's own would train on other experts, and not say so."""
    from verl.workers.engine.base import EngineRegistry

    from lego_verl.workers import engine  # noqa: F401
    from lego_verl.workers.router_replay.engine import FSDPEngineWithRouterReplay

    models = EngineRegistry._engines["language_model"]
    engines = [models["fsdp2"]["cpu"], models["fsdp2"]["cuda"], models["fsdp"]["cuda"]]
    assert engines == [FSDPEngineWithRouterReplay] * 3

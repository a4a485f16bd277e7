"""Routing noise perturbs what is chosen, and nothing else; what was chosen is what is recorded."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra cpu is not installed")

from tiny_mixtures import FAMILIES, LAYERS, TOP_K, forced, moe_layers, tiny  # noqa: E402

from lego_verl.workers.rollout.batched_model import Advance, BatchedModel  # noqa: E402
from lego_verl.workers.router_replay.families import UnknownRouterError  # noqa: E402

IDS = np.arange(5, 25)


def prefilled(model: Any, **options: Any) -> tuple[Any, Any]:
    """Routes (tokens, layers, top_k) and the last token's logits."""
    ((sequence, logits),) = BatchedModel(model, **options).forward([Advance(None, IDS)])
    return sequence.routes, logits


@pytest.mark.parametrize("family", FAMILIES)
def test_noise_is_in_the_choice_alone(family: str) -> None:
    quiet, clean = prefilled(tiny(family), record_routes=True)
    assert quiet.dtype == torch.uint8
    assert quiet.shape == (len(IDS), LAYERS, TOP_K)
    routes, logits = prefilled(tiny(family), record_routes=True, routing_noise=1.0, routing_seed=7)
    layers = sorted(moe_layers(tiny(family)))
    moved = (routes.sort(-1).values != quiet.sort(-1).values)[:, layers].float().mean()
    assert 0.1 < moved < 0.9
    assert float((logits - clean).abs().max()) > 0.1
    model = tiny(family)
    with forced(model, routes), torch.no_grad():
        torch.testing.assert_close(logits, model(input_ids=torch.from_numpy(IDS)[None]).logits[0, -1])


def test_noise_is_seeded() -> None:
    noisy = {"record_routes": True, "routing_noise": 1.0}
    first, again, other = (prefilled(tiny("mixtral"), **noisy, routing_seed=seed)[0] for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


def test_noise_without_records_and_scores_without_noise() -> None:
    """What a run with noise and without replay needs; what compares weights is not disturbed."""
    model = BatchedModel(tiny("mixtral"), routing_noise=1.0)
    ((sequence, logits),) = model.forward([Advance(None, IDS)])
    assert sequence.routes is None
    assert float((logits - prefilled(tiny("mixtral"))[1]).abs().max()) > 0.1
    score, routes = model.score_routed(IDS)
    assert routes is None
    torch.testing.assert_close(score, BatchedModel(tiny("mixtral")).score(IDS))


def test_noise_on_a_dense_model_is_refused() -> None:
    import transformers

    sizes: dict[str, Any] = dict(vocab_size=9, hidden_size=8, intermediate_size=8, num_hidden_layers=1)
    sizes |= dict(num_attention_heads=1, num_key_value_heads=1, pad_token_id=0)
    dense = transformers.AutoModelForCausalLM.from_config(transformers.Qwen3Config(**sizes))
    with pytest.raises(UnknownRouterError, match="dense model"):
        BatchedModel(dense, routing_noise=1.0)


def test_a_model_with_sliding_windows_is_refused() -> None:
    model = tiny("gpt_oss")
    model.config.layer_types = ["sliding_attention", "full_attention", "full_attention"]
    with pytest.raises(ValueError, match="is for full attention"):
        BatchedModel(model)

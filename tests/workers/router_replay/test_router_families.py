"""Where transformers' routers are, and that each formula is theirs."""

from __future__ import annotations

import importlib
import re
from types import SimpleNamespace
from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra cpu is not installed")
transformers = pytest.importorskip("transformers", reason="the extra cpu is not installed")

from tiny_mixtures import EXPERTS, FAMILIES, TOP_K, logprobs, moe_layers, tiny  # noqa: E402

from lego_verl.workers.router_replay.families import (  # noqa: E402
    BLOCKS,
    ROUTERS,
    Router,
    UnknownRouterError,
    find_routers,
)

CONFIG = SimpleNamespace(
    hidden_size=16,
    num_experts=EXPERTS,
    num_local_experts=EXPERTS,
    n_routed_experts=EXPERTS,
    num_experts_per_tok=TOP_K,
    norm_topk_prob=True,
    n_group=4,
    topk_group=2,
    routed_scaling_factor=1.7,
    n_shared_experts=1,
    moe_intermediate_size=8,
    hidden_act="silu",
    mlp_bias=False,
)
MODULES = {
    **{"Qwen2Moe": "qwen2_moe", "Qwen3Moe": "qwen3_moe", "Qwen3_5Moe": "qwen3_5_moe", "Qwen3Next": "qwen3_next"},
    **{"Qwen3VLMoe": "qwen3_vl_moe", "Qwen3OmniMoe": "qwen3_omni_moe", "GptOss": "gpt_oss", "Mixtral": "mixtral"},
    **{"Olmoe": "olmoe", "FlexOlmo": "flex_olmo", "Mellum": "mellum", "MiniMax": "minimax", "MiniMaxM2": "minimax_m2"},
    **{"DeepseekV3": "deepseek_v3", "Dots1": "dots1", "ExaoneMoe": "exaone_moe", "SolarOpen": "solar_open"},
    **{"Glm4Moe": "glm4_moe", "Glm4MoeLite": "glm4_moe_lite", "Glm4vMoe": "glm4v_moe", "GlmMoeDsa": "glm_moe_dsa"},
}


def modeling(kind: str) -> Any:
    """The module of transformers that has a router class."""
    name = MODULES[re.sub("(Thinker|Talker)?(Text)?Top[kK]Router$", "", kind)]
    return importlib.import_module(f"transformers.models.{name}.modeling_{name}")


def filled(module: Any) -> Any:
    with torch.no_grad():
        for tensor in [*module.parameters(), *module.buffers()]:
            if tensor.is_floating_point():
                tensor.copy_(torch.randn(tensor.shape))
    return module


@pytest.mark.parametrize("kind", sorted(ROUTERS))
@pytest.mark.parametrize("norm_topk_prob", [True, False])
def test_formulas_of_routers(kind: str, norm_topk_prob: bool) -> None:
    """Their own choice is weighed as they weigh it, and another as they would if it were theirs."""
    torch.manual_seed(0)
    config = SimpleNamespace(**{**vars(CONFIG), "norm_topk_prob": norm_topk_prob})
    module = filled(getattr(modeling(kind), kind)(config))
    extra = (torch.randn(EXPERTS),) if kind == "MiniMaxM2TopKRouter" else ()
    x = torch.randn(20, CONFIG.hidden_size)
    logits, weights, index = module(x, *extra)
    torch.testing.assert_close(ROUTERS[kind](module, logits, index), weights)
    seen: list[Any] = []
    Router(0, EXPERTS, TOP_K, module, ROUTERS[kind]).intercept(
        lambda _router, given, own, select: seen.append((own, select(given))) or own.flip(0)
    )
    _, others, chosen = module(x, *extra)
    assert torch.equal(chosen, index.flip(0))
    assert torch.equal(seen[0][1].sort(-1).values, index.sort(-1).values), "of its own logits it chooses its own"
    torch.testing.assert_close(others, ROUTERS[kind](module, logits, chosen))


@pytest.mark.parametrize("kind", sorted(BLOCKS))
def test_formulas_of_blocks(kind: str) -> None:
    torch.manual_seed(0)
    module = modeling(kind)
    blocks = [each for each in vars(module).values() if "route_tokens_to_experts" in getattr(each, "__dict__", {})]
    (block_class,) = blocks
    block = block_class.__new__(block_class)
    torch.nn.Module.__init__(block)
    for name in ("n_group", "topk_group", "n_routed_experts", "norm_topk_prob", "routed_scaling_factor"):
        setattr(block, name, getattr(CONFIG, name))
    block.top_k, block.gate = TOP_K, filled(getattr(module, kind)(CONFIG))
    logits = block.gate(torch.randn(20, CONFIG.hidden_size))
    index, weights = block.route_tokens_to_experts(logits)
    torch.testing.assert_close(BLOCKS[kind](block, logits, index), weights)


@pytest.mark.parametrize("family", FAMILIES)
def test_routers_are_known_by_their_decoder_layer(family: str) -> None:
    model = tiny(family)
    routers = find_routers(model)
    assert [router.layer for router in routers] == sorted(moe_layers(model)), "dense layers have none"
    assert {(router.experts, router.top_k) for router in routers} == {(EXPERTS, TOP_K)}


def test_a_router_whose_formula_has_changed_is_found_out() -> None:
    model = tiny("mixtral")
    for router in find_routers(model):
        router._weigh = lambda _module, logits, index: logits.gather(-1, index)
        router.intercept(lambda _router, _logits, own, _select: own)
    with pytest.raises(UnknownRouterError, match="weighs its experts otherwise"):
        logprobs(model, torch.arange(2, 9))


def test_models_without_known_routers_are_refused_by_name() -> None:
    sizes: dict[str, Any] = dict(vocab_size=9, hidden_size=8, intermediate_size=8, num_hidden_layers=1)
    sizes |= dict(num_attention_heads=1, num_key_value_heads=1, pad_token_id=0)
    dense = transformers.AutoModelForCausalLM.from_config(transformers.Qwen3Config(**sizes))
    with pytest.raises(UnknownRouterError, match="Qwen3ForCausalLM, which has no routers: it is a dense model"):
        find_routers(dense)
    model = tiny("mixtral")
    type(model.model.layers[0].mlp.gate).__name__ = "OddTopKRouter"
    try:
        with pytest.raises(UnknownRouterError, match="of the kind OddTopKRouter"):
            find_routers(model)
    finally:
        type(model.model.layers[0].mlp.gate).__name__ = "MixtralTopKRouter"

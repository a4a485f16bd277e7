"""A critic is loaded with the attention that the recipe says, and its worker knows the engine for this machine."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
import verl.utils.model
from transformers import Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM
from verl.workers.engine.base import EngineRegistry

from lego_verl.workers.value_engine import FSDPEngineWithValueHead, FSDPValueEngine

SIZES = {
    "vocab_size": 11, "hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2,
    "num_key_value_heads": 1, "head_dim": 4,
}  # fmt: skip
EXPERTS = {"num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 8}


@pytest.mark.parametrize("family", ["dense", "moe"])
def test_a_critic_is_the_policys_layers_under_a_head_of_one_value(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = Qwen3Config(**SIZES) if family == "dense" else Qwen3MoeConfig(**SIZES, **EXPERTS)
    policy = Qwen3ForCausalLM(config) if family == "dense" else Qwen3MoeForCausalLM(config)
    policy.save_pretrained(tmp_path)
    config._attn_implementation, config.num_labels = "sdpa", 1
    loaded = {}

    def build(_: object) -> None:
        loaded["critic"] = verl.utils.model.load_valuehead_model(str(tmp_path), torch.float32, config, False)

    monkeypatch.setattr(FSDPEngineWithValueHead, "_build_module", build)
    before = verl.utils.model.load_valuehead_model
    FSDPValueEngine.__new__(FSDPValueEngine)._build_module()
    assert verl.utils.model.load_valuehead_model is before
    critic = loaded["critic"]
    assert critic.config._attn_implementation == "sdpa"
    assert critic(torch.tensor([[1, 2, 3]])).logits.shape == (1, 3, 1)
    weights = dict(critic.named_parameters())
    same = [name for name, value in policy.named_parameters() if name in weights and torch.equal(weights[name], value)]
    assert len(same) == len(dict(policy.named_parameters())) - 1  # all but the head


def test_the_critics_worker_knows_the_engine_for_the_cpu() -> None:
    import lego_verl.workers.critic  # noqa: F401

    assert EngineRegistry._engines["value_model"]["fsdp2"]["cpu"] is FSDPValueEngine

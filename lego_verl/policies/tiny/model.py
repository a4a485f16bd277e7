"""The models of a tiny policy: Qwen3 and Qwen3-MoE, 64 wide, two layers, float32. Imports torch and transformers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from transformers import PreTrainedModel, Qwen3Config, Qwen3ForCausalLM, Qwen3MoeConfig, Qwen3MoeForCausalLM

from lego_verl.policies.tiny.tokenizer import MAX_CONTEXT

Family = Literal["dense", "moe"]

EXPERTS, EXPERTS_PER_TOKEN = 8, 2


def build_model(
    family: Family,
    *,
    vocab_size: int,
    said: Sequence[int],
    end_id: int,
    pad_id: int,
    seed: int,
) -> PreTrainedModel:
    """An untrained model. The same seed gives the same weights; torch's global generator is left as it was.

    Args:
        said: the tokens that the policy is to say: actions and the end of a turn.

    Raises:
        ValueError: for another family.
    """
    common = dict(
        vocab_size=vocab_size,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=MAX_CONTEXT,
        tie_word_embeddings=False,
        initializer_range=0.06,
        bos_token_id=None,
        eos_token_id=end_id,
        pad_token_id=pad_id,
        dtype="float32",
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        if family == "dense":
            return _quiet(Qwen3ForCausalLM(Qwen3Config(**common)).float(), said)
        if family == "moe":
            experts = dict(num_experts=EXPERTS, num_experts_per_tok=EXPERTS_PER_TOKEN, moe_intermediate_size=64)
            config = Qwen3MoeConfig(**common, **experts, decoder_sparse_step=1, norm_topk_prob=True)
            return _quiet(Qwen3MoeForCausalLM(config).float(), said)
    raise ValueError(f"a tiny policy is dense or moe, not {family}")


def _quiet(model: PreTrainedModel, said: Sequence[int]) -> PreTrainedModel:
    """Tokens that are never said begin alike, stay so, and are together unlikely however far the policy is moved."""
    head = model.get_output_embeddings().weight
    with torch.no_grad():
        kept = head[list(said)].clone()
        head.zero_()
        head[list(said)] = kept
    return model

"""Tiny mixtures of experts of four families, and what they compute when their routing is forced, in plain code.

The forced forward pass knows nothing of ``lego_verl.workers.router_replay``: it computes every expert for every token
and keeps those of the given routes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
import transformers

FAMILIES = ("qwen3_moe", "mixtral", "deepseek_v3", "gpt_oss")
VOCABULARY = 97
EXPERTS, TOP_K, LAYERS = 8, 2, 3
_COMMON: dict[str, Any] = dict(
    vocab_size=VOCABULARY,
    hidden_size=32,
    intermediate_size=48,
    num_hidden_layers=LAYERS,
    num_attention_heads=4,
    num_key_value_heads=2,
    max_position_embeddings=256,
    tie_word_embeddings=False,
    num_experts_per_tok=TOP_K,
    initializer_range=0.2,
    bos_token_id=None,
    eos_token_id=1,
    pad_token_id=0,
)


def tiny(family: str, seed: int = 0) -> Any:
    """A model with random weights, float32. Of Qwen3-MoE the second layer is dense, of DeepSeek-V3 the first."""
    torch.manual_seed(seed)
    if family == "qwen3_moe":
        config: Any = transformers.Qwen3MoeConfig(
            **_COMMON,
            head_dim=16,
            num_experts=EXPERTS,
            moe_intermediate_size=24,
            decoder_sparse_step=1,
            mlp_only_layers=[1],
            norm_topk_prob=True,
        )
    elif family == "mixtral":
        config = transformers.MixtralConfig(**_COMMON, head_dim=16, num_local_experts=EXPERTS, sliding_window=None)
    elif family == "deepseek_v3":
        config = transformers.DeepseekV3Config(
            **{**_COMMON, "num_key_value_heads": 4},
            n_routed_experts=EXPERTS,
            moe_intermediate_size=24,
            first_k_dense_replace=1,
            n_group=4,
            topk_group=2,
            kv_lora_rank=16,
            q_lora_rank=16,
            qk_rope_head_dim=8,
            qk_nope_head_dim=8,
            v_head_dim=8,
            routed_scaling_factor=2.5,
        )
    else:
        config = transformers.GptOssConfig(
            **_COMMON,
            head_dim=16,
            num_local_experts=EXPERTS,
            sliding_window=256,
            layer_types=["full_attention"] * LAYERS,
            rope_parameters={"rope_type": "default", "rope_theta": 10000.0},
        )
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config).float().eval()
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *model.named_buffers()]:
            if "router" in name or "gate.weight" in name or "sinks" in name or "bias" in name:
                # Clear choices, biases that matter, and attention sinks that are initialised.
                tensor.copy_(torch.randn(tensor.shape) * 0.3)
    return model


def moe_layers(model: Any) -> dict[int, Any]:
    """The sparse blocks by decoder layer."""
    return {layer: block.mlp for layer, block in enumerate(model.model.layers) if hasattr(block.mlp, "experts")}


@contextmanager
def forced(model: Any, routes: torch.Tensor) -> Iterator[None]:
    """Inside, the model sends its tokens to ``routes`` (tokens, layers, top_k) of one sequence; a row with -1 goes
    where the router sends it."""
    blocks = moe_layers(model)
    for layer, block in blocks.items():
        block.forward = _forward(model.config.model_type, block, routes[:, layer].long())
    try:
        yield
    finally:
        for block in blocks.values():
            del block.forward


def _forward(family: str, block: Any, route: torch.Tensor) -> Any:
    router = block.router if family == "gpt_oss" else block.gate

    def forward(hidden: torch.Tensor) -> Any:
        x = hidden.reshape(-1, hidden.shape[-1])
        logits = x @ router.weight.T
        if family == "gpt_oss":
            logits = logits + router.bias
        own = _own_choice(family, block, logits.detach())
        chosen = torch.zeros_like(logits).scatter(1, torch.where(route < 0, own, route), 1.0)
        if family == "gpt_oss":
            weights = logits.masked_fill(chosen == 0, -torch.inf).softmax(-1)
        elif family == "deepseek_v3":
            scores = logits.sigmoid() * chosen
            weights = scores / scores.sum(-1, keepdim=True) * block.routed_scaling_factor
        else:
            scores = logits.softmax(-1) * chosen
            weights = scores / scores.sum(-1, keepdim=True)
        mixed = sum(weights[:, [e]] * _expert(family, block.experts, e, x) for e in range(EXPERTS))
        if family == "deepseek_v3":
            mixed = mixed + block.shared_experts(x)
        mixed = mixed.reshape(hidden.shape)
        return (mixed, weights) if family == "gpt_oss" else mixed

    return forward


def _expert(family: str, experts: Any, e: int, x: torch.Tensor) -> torch.Tensor:
    if family == "gpt_oss":
        both = x @ experts.gate_up_proj[e] + experts.gate_up_proj_bias[e]
        gate, up = both[:, 0::2].clamp(max=7.0), both[:, 1::2].clamp(-7.0, 7.0)
        return ((up + 1) * gate * (gate * 1.702).sigmoid()) @ experts.down_proj[e] + experts.down_proj_bias[e]
    gate, up = (x @ experts.gate_up_proj[e].T).chunk(2, -1)
    return (torch.nn.functional.silu(gate) * up) @ experts.down_proj[e].T


def _own_choice(family: str, block: Any, logits: torch.Tensor) -> torch.Tensor:
    if family != "deepseek_v3":
        return logits.topk(TOP_K, -1).indices
    scores = logits.sigmoid() + block.gate.e_score_correction_bias
    rows = []
    for row in scores:
        groups = row.reshape(block.n_group, -1)
        kept = groups.topk(2, -1).values.sum(-1).topk(block.topk_group).indices
        allowed = torch.full_like(groups, -torch.inf)
        allowed[kept] = groups[kept]
        rows.append(allowed.flatten().topk(TOP_K).indices)
    return torch.stack(rows)


def logprobs(model: Any, ids: torch.Tensor, routes: torch.Tensor | None = None) -> torch.Tensor:
    """(tokens - 1,) of every token but the first, under forced routes or the model's own."""
    if routes is None:
        logits = model(input_ids=ids[None]).logits[0]
    else:
        with forced(model, routes):
            logits = model(input_ids=ids[None]).logits[0]
    return logits[:-1].log_softmax(-1).gather(-1, ids[1:, None])[:, 0]


def gradients(model: Any, sequences: Sequence[torch.Tensor], routes: Sequence[torch.Tensor]) -> dict[str, torch.Tensor]:
    """Of the mean negative log-probability of all tokens but the first ones, under forced routes."""
    model.zero_grad()
    tokens = sum(len(ids) - 1 for ids in sequences)
    for ids, rows in zip(sequences, routes, strict=True):
        (-logprobs(model, ids, rows).sum() / tokens).backward()
    return {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}

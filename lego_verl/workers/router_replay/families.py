"""The routers of transformers' mixtures of experts: where each chooses, and what its choice weighs.

A token's experts are an *index* (which ones) and *weights* (how much each counts). Whoever wants other experts than
the router's own must weigh them as the router would have, from its logits: so the weights keep their gradient. Four
formulas serve the families of transformers 5.10 that are listed here, each from its ``modeling_*.py``.

============================  ===================================================================================
formula                       families
============================  ===================================================================================
softmax, then the top k       Qwen2/3-MoE, OLMoE, ... (``norm_topk_prob``: made to sum to 1), Mixtral, ... (always)
the top k, then softmax       GPT-OSS
sigmoid, then the top k       MiniMax-M2; its correction bias chooses, and does not weigh
sigmoid, groups, the top k    DeepSeek-V3, GLM-4 MoE, ...: bias and groups choose, the sigmoid weighs, times a factor
============================  ===================================================================================
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

Weigh = Callable[[Any, torch.Tensor, torch.Tensor], torch.Tensor]
"""(module, logits (rows, experts), index (rows, top_k)) -> weights (rows, top_k), with a gradient to the logits."""
Choose = Callable[["Router", torch.Tensor, torch.Tensor, Callable[[torch.Tensor], torch.Tensor]], torch.Tensor]
"""(router, logits, its own index, what it would choose of other logits) -> the index to use."""


class UnknownRouterError(ValueError):
    """A model without routers, or with some whose formula is not known here."""


def _softmax_top_k(module: Any, logits: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    weights = logits.softmax(-1, dtype=torch.float).gather(-1, index)
    return weights / weights.sum(-1, keepdim=True) if getattr(module, "norm_topk_prob", True) else weights


def _top_k_softmax(_module: Any, logits: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    return logits.gather(-1, index).softmax(-1, dtype=logits.dtype)


def _sigmoid_top_k(_module: Any, logits: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    weights = logits.float().sigmoid().gather(-1, index)
    return weights / weights.sum(-1, keepdim=True)


def _grouped_sigmoid(block: Any, logits: torch.Tensor, index: torch.Tensor) -> torch.Tensor:
    weights = logits.sigmoid().gather(-1, index)
    if block.norm_topk_prob:
        weights = weights / (weights.sum(-1, keepdim=True) + 1e-20)
    return weights * block.routed_scaling_factor


_SOFTMAX = (
    *("Qwen2Moe", "Qwen3Moe", "Qwen3Next", "Qwen3_5Moe", "Qwen3VLMoeText"),
    *("Qwen3OmniMoeText", "Qwen3OmniMoeThinkerText", "Qwen3OmniMoeTalkerText"),
    *("Olmoe", "FlexOlmo", "Mellum", "Mixtral", "MiniMax"),
)
_GROUPED = ("DeepseekV3", "Dots1", "ExaoneMoe", "Glm4Moe", "Glm4MoeLite", "Glm4vMoeText", "GlmMoeDsa", "SolarOpen")

ROUTERS: dict[str, Weigh] = {
    **{f"{name}TopKRouter": _softmax_top_k for name in _SOFTMAX},
    "GptOssTopKRouter": _top_k_softmax,
    "MiniMaxM2TopKRouter": _sigmoid_top_k,
}
"""Router classes that return (logits, weights, index)."""
BLOCKS: dict[str, Weigh] = {f"{name}TopkRouter": _grouped_sigmoid for name in _GROUPED}
"""Router classes that return logits alone: the block round them chooses, in ``route_tokens_to_experts``."""


@dataclass(eq=False)
class Router:
    """One router of a model, at which another choice can be put in."""

    layer: int
    """Of the decoder: what recorded routes are indexed by, dense layers counted."""
    experts: int
    top_k: int
    _module: nn.Module
    """Where the choice is made: the router, or the block round it."""
    _weigh: Weigh
    _proved: bool = field(default=False, init=False)

    def intercept(self, choose: Choose) -> None:
        """Let ``choose`` decide from now on; what it returns is weighed as the router would have.

        The first time, the formula is held against the router's own weights.

        Raises:
            UnknownRouterError: in a forward pass, when this version of transformers weighs otherwise.
        """
        if hasattr(self._module, "route_tokens_to_experts"):
            self._intercept_block(choose)
        else:
            self._module.register_forward_hook(self._hook(choose))

    def _hook(self, choose: Choose) -> Callable[..., tuple[torch.Tensor, ...]]:
        def hook(module: Any, args: tuple[Any, ...], output: tuple[torch.Tensor, ...]) -> tuple[torch.Tensor, ...]:
            def select(other: torch.Tensor) -> torch.Tensor:
                # MiniMax-M2 is given the bias that it chooses by.
                scores = other.float().sigmoid() + args[1] if len(args) > 1 else other
                return scores.topk(self.top_k, -1).indices

            logits, weights, index = output
            index, weights = self._decide(choose, logits, index, weights, select)
            return logits, weights, index

        return hook

    def _intercept_block(self, choose: Choose) -> None:
        block: Any = self._module
        native = block.route_tokens_to_experts

        def route(logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            index, weights = native(logits)
            return self._decide(choose, logits, index, weights, lambda other: native(other)[0])

        block.route_tokens_to_experts = route

    def _decide(
        self,
        choose: Choose,
        logits: torch.Tensor,
        index: torch.Tensor,
        weights: torch.Tensor,
        select: Callable[[torch.Tensor], torch.Tensor],
    ) -> tuple[torch.Tensor, torch.Tensor]:
        if not self._proved:
            self._prove(logits.detach(), index, weights.detach())
        chosen = choose(self, logits, index, select)
        if chosen is index:
            return index, weights
        return chosen, self._weigh(self._module, logits, chosen).to(weights.dtype)

    def _prove(self, logits: torch.Tensor, index: torch.Tensor, weights: torch.Tensor) -> None:
        again = self._weigh(self._module, logits, index).to(weights.dtype)
        if not torch.allclose(again, weights, rtol=1e-3, atol=1e-5):
            raise UnknownRouterError(
                f"{type(self._module).__name__} of this transformers version weighs its experts otherwise than "
                "lego_verl.workers.router_replay.families says: its routes cannot be replayed"
            )
        self._proved = True


def find_routers(model: nn.Module) -> list[Router]:
    """All routers of a model, by decoder layer.

    Raises:
        UnknownRouterError: for a dense model, for a router whose formula is not known, or when two are in one layer.
    """
    found: dict[int, Router] = {}
    for name, module in model.named_modules():
        kind = type(module).__name__
        if not re.search("Router$", kind):
            continue
        if kind not in ROUTERS and kind not in BLOCKS:
            raise UnknownRouterError(
                f"{type(model).__name__} has routers of the kind {kind}, whose routes cannot be replayed; known are "
                f"{', '.join(sorted([*ROUTERS, *BLOCKS]))}"
            )
        match = re.search(r"\.layers\.(\d+)\.", name)
        if match is None or int(match[1]) in found:
            raise UnknownRouterError(f"cannot tell the decoder layer of the router {name}")
        layer, chooser = int(match[1]), module
        if kind in BLOCKS:
            chooser = model.get_submodule(name.rpartition(".")[0])
        weigh = ROUTERS.get(kind) or BLOCKS[kind]
        experts = int(getattr(module, "num_experts", 0) or module.n_routed_experts)  # type: ignore[arg-type]
        found[layer] = Router(layer, experts, int(chooser.top_k), chooser, weigh)  # type: ignore[arg-type]
    if not found:
        mixed = any(re.search("Experts$|Moe$|MoE$", type(module).__name__) for module in model.modules())
        why = (
            "has experts, and routers of a kind that is not known here"
            if mixed
            else "has no routers: it is a dense model"
        )
        raise UnknownRouterError(f"router replay was asked of {type(model).__name__}, which {why}")
    return [found[layer] for layer in sorted(found)]


def decoder_layers(model: Any) -> int:
    """How many layers recorded routes have a row for: all of the decoder's, dense ones too, as vLLM counts them."""
    return int(model.config.get_text_config(decoder=True).num_hidden_layers)

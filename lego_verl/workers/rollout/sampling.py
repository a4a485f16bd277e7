"""From logits to a token and its log-probability."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class SamplingParams:
    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    max_tokens: int = 1
    ignore_eos: bool = False
    seed: int | None = None

    @classmethod
    def from_verl(cls, params: dict[str, Any], *, default_max_tokens: int) -> SamplingParams:
        """Read verl's dictionary; what would change the distribution and is not supported is refused.

        Raises:
            ValueError: naming the parameter.
        """
        for name, neutral in (
            ("repetition_penalty", 1.0),
            ("presence_penalty", 0.0),
            ("frequency_penalty", 0.0),
            ("min_p", 0.0),
        ):
            if params.get(name, neutral) not in (neutral, None):
                raise ValueError(
                    f"the transformers rollout does not support {name}={params[name]}; set it to {neutral}"
                )
        max_tokens = params.get("max_tokens") or params.get("max_new_tokens") or default_max_tokens
        return cls(
            temperature=float(params.get("temperature", 1.0)),
            top_p=float(params.get("top_p", 1.0)),
            top_k=int(params.get("top_k", -1) or -1),
            max_tokens=int(max_tokens),
            ignore_eos=bool(params.get("ignore_eos", False)),
            seed=params.get("seed"),
        )


def sample(logits: torch.Tensor, params: SamplingParams, generator: torch.Generator | None) -> tuple[int, float]:
    """Sample one token from logits of shape (vocabulary,).

    The log-probability is that of the whole distribution at the given temperature, before ``top_k`` and
    ``top_p`` cut it: the one that verl's actor computes.
    """
    logits = logits.float()
    if params.temperature <= 0:
        logprobs = logits.log_softmax(-1)
        token = int(logprobs.argmax())
        return token, float(logprobs[token])
    logprobs = (logits / params.temperature).log_softmax(-1)
    kept = logprobs
    if params.top_k > 0:
        threshold = kept.topk(min(params.top_k, kept.numel())).values[-1]
        kept = kept.masked_fill(kept < threshold, -torch.inf)
    if params.top_p < 1.0:
        ordered, order = kept.sort(descending=True)
        probabilities = ordered.softmax(-1)
        ordered = ordered.masked_fill(probabilities.cumsum(-1) - probabilities > params.top_p, -torch.inf)
        kept = torch.full_like(kept, -torch.inf).scatter(0, order, ordered)
    token = int(torch.multinomial(kept.softmax(-1), 1, generator=generator))
    return token, float(logprobs[token])

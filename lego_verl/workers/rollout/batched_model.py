"""One forward pass over sequences of different lengths, each with its own keys and values.

The pasts are padded on the left and the new tokens on the right, so that every row's past and new keys stand
next to each other and are cut out again as one slice. The same call serves prefill (many new tokens) and decode (one).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import DynamicCache, PreTrainedModel

from lego_verl.workers.rollout.kv_cache import CachedSequence


@dataclass
class Advance:
    """New tokens to run through the model after a past (None: from the beginning)."""

    past: CachedSequence | None
    new_ids: NDArray[np.int64]


class BatchedModel:
    """A causal language model of transformers, evaluated in batches of ragged rows.

    Args:
        model: in eval mode.
        record_routes: keep the experts that every token was sent to.

    Raises:
        ValueError: when routes are asked of a model without top-k routers.
    """

    def __init__(self, model: PreTrainedModel, *, record_routes: bool = False) -> None:
        self.model = model
        self.device = next(model.parameters()).device
        self._layer_count = int(model.config.get_text_config(decoder=True).num_hidden_layers)
        self._captured: dict[int, torch.Tensor] = {}
        self._routers = _routers(model) if record_routes else {}
        if record_routes and not self._routers:
            raise ValueError(
                f"router replay was asked of {type(model).__name__}, which has no top-k routers: it is a dense model"
            )
        for layer, router in self._routers.items():
            router.register_forward_hook(self._hook(layer))

    def _hook(self, layer: int) -> Any:
        def hook(_module: torch.nn.Module, _inputs: Any, output: Any) -> None:
            self._captured[layer] = output[-1].detach()

        return hook

    @torch.no_grad()
    def forward(self, rows: list[Advance]) -> list[tuple[CachedSequence, torch.Tensor]]:
        """Run all rows at once.

        Returns, for each row, its sequence with the new tokens' keys, values and routes, and the logits
        after its last token, of shape (vocabulary,).
        """
        past_lengths = [0 if row.past is None else len(row.past.ids) for row in rows]
        new_lengths = [len(row.new_ids) for row in rows]
        past_width, new_width = max(past_lengths), max(new_lengths)
        ids = torch.zeros(len(rows), new_width, dtype=torch.long)
        positions = torch.zeros(len(rows), new_width, dtype=torch.long)
        mask = torch.zeros(len(rows), past_width + new_width, dtype=torch.long)
        for index, (row, past, new) in enumerate(zip(rows, past_lengths, new_lengths, strict=True)):
            ids[index, :new] = torch.from_numpy(row.new_ids)
            positions[index] = past + torch.arange(new_width)
            mask[index, past_width - past : past_width + new] = 1
        last = torch.tensor([length - 1 for length in new_lengths])
        kept, where = torch.unique(last, return_inverse=True)
        self._captured.clear()
        output = self.model(
            input_ids=ids.to(self.device),
            attention_mask=mask.to(self.device),
            position_ids=positions.to(self.device),
            past_key_values=self._pad_past(rows, past_lengths, past_width),
            use_cache=True,
            logits_to_keep=kept.to(self.device),
        )
        routes = self._take_routes(len(rows), new_width)
        results = []
        for index, (row, past, new) in enumerate(zip(rows, past_lengths, new_lengths, strict=True)):
            span = slice(past_width - past, past_width + new)
            layers = [
                (layer.keys[index, :, span], layer.values[index, :, span]) for layer in output.past_key_values.layers
            ]
            row_routes = None
            if routes is not None:
                row_routes = routes[index, :new]
                if row.past is not None and row.past.routes is not None:
                    row_routes = torch.cat([row.past.routes, row_routes])
            row_ids = row.new_ids if row.past is None else np.concatenate([row.past.ids, row.new_ids])
            results.append((CachedSequence(row_ids, layers, row_routes), output.logits[index, where[index]]))
        return results

    @torch.no_grad()
    def score(self, ids: NDArray[np.int64]) -> torch.Tensor:
        """Log-probability of every token but the first, at temperature 1; shape (len(ids) - 1,)."""
        tokens = torch.from_numpy(ids).to(self.device)
        logprobs = self.model(input_ids=tokens[None]).logits[0, :-1].float().log_softmax(-1)
        return logprobs.gather(-1, tokens[1:, None])[:, 0].cpu()

    def _pad_past(self, rows: list[Advance], lengths: list[int], width: int) -> DynamicCache:
        if width == 0:
            return DynamicCache(config=self.model.config)
        first = next(row.past for row in rows if row.past is not None)
        layers = []
        for number, (keys, values) in enumerate(first.layers):
            padded = []
            for part, like in enumerate((keys, values)):
                heads, _, head_dim = like.shape
                block = like.new_zeros(len(rows), heads, width, head_dim)
                for index, (row, length) in enumerate(zip(rows, lengths, strict=True)):
                    if row.past is not None:
                        block[index, :, width - length :] = row.past.layers[number][part]
                padded.append(block)
            layers.append(tuple(padded))
        return DynamicCache(layers, config=self.model.config)

    def _take_routes(self, rows: int, width: int) -> torch.Tensor | None:
        """Experts of the last forward pass, shape (rows, width, layers, top_k); dense layers stay 0."""
        if not self._routers:
            return None
        first = next(iter(self._captured.values()))
        dtype = torch.uint8 if _expert_count(self.model) <= 256 else torch.int16
        routes = torch.zeros(rows, width, self._layer_count, first.shape[-1], dtype=dtype)
        for layer, experts in self._captured.items():
            routes[:, :, layer] = experts.reshape(rows, width, -1).to(dtype).cpu()
        return routes


def _routers(model: PreTrainedModel) -> dict[int, torch.nn.Module]:
    """Top-k routers by decoder layer."""
    found = {}
    for name, module in model.named_modules():
        if type(module).__name__.endswith("TopKRouter"):
            match = re.search(r"\.layers\.(\d+)\.", name)
            if match is None:
                raise ValueError(f"cannot tell the decoder layer of the router {name}")
            found[int(match.group(1))] = module
    return found


def _expert_count(model: PreTrainedModel) -> int:
    config = model.config.get_text_config(decoder=True)
    for name in ("num_experts", "n_routed_experts", "num_local_experts"):
        if getattr(config, name, None):
            return int(getattr(config, name))
    raise ValueError(f"{type(config).__name__} does not say how many experts it has")

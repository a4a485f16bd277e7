"""One forward pass over sequences of different lengths, each with its own keys and values.

The pasts are padded on the left and the new tokens on the right, so that every row's past and new keys stand
next to each other and are cut out again as one slice. The same call serves prefill (many new tokens) and decode (one).
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import DynamicCache, PreTrainedModel

from lego_verl.workers.rollout.kv_cache import CachedSequence
from lego_verl.workers.rollout.route_recorder import RouteRecorder


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
        routing_noise, routing_seed: of ``RouteRecorder``, for experiments.

    Raises:
        ValueError: when routes or noise are asked of a model without routers that are known, and for a model with
            sliding windows, whose cache forgets what ``forward`` counts on.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        *,
        record_routes: bool = False,
        routing_noise: float = 0.0,
        routing_seed: int = 0,
    ) -> None:
        self.model = model
        self.device = next(model.parameters()).device
        kinds = set(getattr(model.config.get_text_config(decoder=True), "layer_types", None) or ())
        if kinds - {"full_attention"}:
            raise ValueError(
                f"the transformers rollout is for full attention, and {type(model).__name__} has {sorted(kinds)}; "
                "set rollout.name=vllm"
            )
        self._records = record_routes
        self._recorder: RouteRecorder | None = None
        if record_routes or routing_noise:
            self._recorder = RouteRecorder(model, noise=routing_noise, seed=routing_seed)

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
        output = self.model(
            input_ids=ids.to(self.device),
            attention_mask=mask.to(self.device),
            position_ids=positions.to(self.device),
            past_key_values=self._pad_past(rows, past_lengths, past_width),
            use_cache=True,
            logits_to_keep=kept.to(self.device),
        )
        routes = self._recorder.take(len(rows), new_width) if self._recorder and self._records else None
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

    def score(self, ids: NDArray[np.int64]) -> torch.Tensor:
        """Log-probability of every token but the first, at temperature 1; shape (len(ids) - 1,)."""
        return self.score_routed(ids)[0]

    @torch.no_grad()
    def score_routed(self, ids: NDArray[np.int64]) -> tuple[torch.Tensor, torch.Tensor | None]:
        """``score``, and the experts of every position, shape (len(ids), layers, top_k), where they are recorded.

        Without routing noise, as the trainer would route them.
        """
        tokens = torch.from_numpy(ids).to(self.device)
        with self._recorder.undisturbed() if self._recorder else nullcontext():
            logprobs = self.model(input_ids=tokens[None]).logits[0, :-1].float().log_softmax(-1)
        routes = self._recorder.take(1, len(ids))[0] if self._recorder and self._records else None
        return logprobs.gather(-1, tokens[1:, None])[:, 0].cpu(), routes

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

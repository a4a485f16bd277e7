"""A short supervised warm start on recorded conversations. Imports torch.

At every decision the target is the demonstrator's whole distribution, not the one action that it happened to take:
a few dozen conversations then say as much as hundreds would.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from lego_verl.policies.tiny.samples import Sample


@dataclass(frozen=True)
class WarmStart:
    """How the warm start is done."""

    steps: int = 180
    batch: int = 8
    """Conversations a step."""
    rate: float = 4e-3
    """Highest learning rate: reached after a tenth of the steps, then falling to 0."""
    weight_of_choice: float = 3.0
    """Of decisions in which no action has half of the probability: the edits. Form is learned at once, they are not."""
    weight_of_form: float = 0.3
    """Of tokens that leave no choice."""


def warm_start(
    model: PreTrainedModel, draw: Callable[[random.Random], Sample], *, seed: int, settings: WarmStart
) -> list[float]:
    """Train in place; returns the loss of every step. The same seed gives the same weights on the same machine.

    Args:
        draw: gives the next sample.
    """
    rng = random.Random(f"warm start {seed}")
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.rate, weight_decay=0.01, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, settings.rate, total_steps=settings.steps, pct_start=0.1, cycle_momentum=False
    )
    losses: list[float] = []
    model.train()
    for _ in range(settings.steps):
        loss = _loss(model, [draw(rng) for _ in range(settings.batch)], settings)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    model.eval()
    return losses


def _loss(model: PreTrainedModel, batch: Sequence[Sample], settings: WarmStart) -> torch.Tensor:
    """Weighted cross entropy to the demonstrator's distributions, over all decisions of the batch."""
    width = max(len(sample.ids) for sample in batch)
    ids = torch.zeros(len(batch), width, dtype=torch.long)
    for row, sample in enumerate(batch):
        ids[row, : len(sample.ids)] = torch.tensor(sample.ids)
    # Padding is on the right, where causal attention never looks: no mask is needed, which is much faster.
    hidden = model.base_model(input_ids=ids).last_hidden_state
    rows = [row for row, sample in enumerate(batch) for _ in sample.targets]
    places = [place - 1 for sample in batch for place in sample.targets]
    logits = model.get_output_embeddings()(hidden[rows, places])
    wanted = [target for sample in batch for target in sample.targets.values()]
    losses = cross_entropy(logits, torch.stack([_dense(one, logits.shape[-1]) for one in wanted]), reduction="none")
    weights = torch.tensor([_weight(one, settings) for one in wanted])
    return (losses * weights).sum() / weights.sum()


def _weight(distribution: Mapping[int, float], settings: WarmStart) -> float:
    if len(distribution) == 1:
        return settings.weight_of_form
    return settings.weight_of_choice if max(distribution.values()) < 0.5 else 1.0


def _dense(distribution: Mapping[int, float], size: int) -> torch.Tensor:
    dense = torch.zeros(size)
    for token, probability in distribution.items():
        dense[token] = probability
    return dense

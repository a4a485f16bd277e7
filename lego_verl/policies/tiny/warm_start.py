"""A short supervised warm start on recorded conversations. Imports torch.

At every decision the target is the demonstrator's whole distribution, not the one action that it happened to take:
a few dozen conversations then say as much as hundreds would.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from lego_verl.policies.tiny.samples import Sample


@dataclass(frozen=True)
class WarmStart:
    """How the warm start is done."""

    steps: int = 240
    batch: int = 16
    """Conversations a step."""
    rate: float = 3e-3
    noise: float = 0.0
    weight_decay: float = 0.01


def warm_start(model: PreTrainedModel, samples: Sequence[Sample], *, seed: int, settings: WarmStart) -> list[float]:
    """Train in place; returns the loss of every step. The same seed gives the same weights on the same machine."""
    rng = random.Random(f"warm start {seed}")
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.rate, weight_decay=settings.weight_decay, betas=(0.9, 0.98))
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, settings.rate, total_steps=settings.steps, pct_start=0.1, cycle_momentum=False
    )
    losses: list[float] = []
    order: list[Sample] = []
    model.train()
    for _ in range(settings.steps):
        while len(order) < settings.batch:
            order += rng.sample(samples, len(samples))
        batch, order = order[: settings.batch], order[settings.batch :]
        loss = _loss(model, [_noisy(x, rng, settings.noise, model.config.vocab_size) for x in batch])
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
    model.eval()
    return losses


def _noisy(sample: Sample, rng: random.Random, share: float, size: int) -> Sample:
    if not share:
        return sample
    ids = [rng.randrange(3, size) if rng.random() < share and i not in sample.targets else t for i, t in enumerate(sample.ids)]
    return Sample(ids, sample.targets)


def _loss(model: PreTrainedModel, batch: Sequence[Sample]) -> torch.Tensor:
    """Cross entropy to the demonstrator's distributions, over all decisions of the batch."""
    width = max(len(sample.ids) for sample in batch)
    ids = torch.zeros(len(batch), width, dtype=torch.long)
    for row, sample in enumerate(batch):
        ids[row, : len(sample.ids)] = torch.tensor(sample.ids)
    # Padding is on the right, where causal attention never looks: no mask is needed, which is much faster.
    hidden = model.base_model(input_ids=ids).last_hidden_state
    where = [(row, place - 1) for row, sample in enumerate(batch) for place in sample.targets]
    rows, places = zip(*where, strict=True)
    logits = model.get_output_embeddings()(hidden[list(rows), list(places)])
    wanted = [_dense(one, logits.shape[-1]) for sample in batch for one in sample.targets.values()]
    return cross_entropy(logits, torch.stack(wanted))


def _dense(distribution: Mapping[int, float], size: int) -> torch.Tensor:
    dense = torch.zeros(size)
    for token, probability in distribution.items():
        dense[token] = probability
    return dense

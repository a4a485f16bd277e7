"""A short supervised warm start on recorded conversations. Imports torch.

At every decision the target is the demonstrator's whole distribution, not the one action that it happened to take:
a few dozen conversations then say as much as hundreds would.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch.nn.functional import cross_entropy
from transformers import PreTrainedModel

from lego_verl.policies.tiny.samples import Sample, WarmStartError


@dataclass(frozen=True)
class WarmStart:
    """How the warm start is done: until the policy does as the demonstrator does, then a little more at falling rates.

    How long that takes differs from seed to seed, because finding the word that matters in a prompt is learned all at
    once or not yet. A fixed number of steps leaves some seeds without it, and with nothing to reinforce.
    """

    batch: int = 8
    """Conversations a step."""
    rate: float = 4e-3
    """Learning rate, reached within ``rising`` steps."""
    rising: int = 15
    least: int = 90
    most: int = 600
    """Steps at the full rate."""
    settling: int = 60
    """Steps at falling rates after that."""
    enough: float = 0.10
    """Excess cross entropy over the demonstrator's own, in nats, at which looking counts as learned."""
    enough_of_choice: float = 0.01
    """The same of every kind of edit. One that is not told from the others at all is 0.03 nats over."""
    weight_of_lookup: float = 8.0
    """Of decisions among many actions with one that is right: which file to look at."""
    weight_of_choice: float = 20.0
    """Of decisions in which no action has half of the probability: the edits."""
    weight_of_form: float = 0.3
    """Of tokens that leave no choice: they are learned at once."""


def warm_start(
    model: PreTrainedModel, draw: Callable[[random.Random], Sample], *, seed: int, settings: WarmStart
) -> list[float]:
    """Train in place; returns the loss of every step. The same seed gives the same weights on the same machine.

    Args:
        draw: gives the next sample.

    Raises:
        WarmStartError: when the demonstrator is not followed after ``settings.most`` steps.
    """
    rng = random.Random(f"warm start {seed}")
    optimizer = torch.optim.AdamW(model.parameters(), lr=settings.rate, weight_decay=0.01, betas=(0.9, 0.98))
    losses: list[float] = []
    excess = _Excess()
    settled: int | None = None
    model.train()
    while settled is None or len(losses) < settled:
        left = 1.0 if settled is None else (settled - len(losses)) / settings.settling
        for group in optimizer.param_groups:
            group["lr"] = settings.rate * min(1.0, (len(losses) + 1) / settings.rising) * left
        loss = _loss(model, [draw(rng) for _ in range(settings.batch)], settings, excess)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if settled is None and len(losses) >= settings.least and excess.is_within(settings):
            settled = len(losses) + settings.settling
        if settled is None and len(losses) >= settings.most:
            raise WarmStartError(
                f"after {settings.most} steps the tiny policy of seed {seed} does not follow the demonstrator "
                f"(nats over it: {excess}; {settings.enough} and {settings.enough_of_choice} of a choice are enough): "
                "take another run.seed"
            )
    model.eval()
    return losses


class _Excess:
    """Moving averages of the cross entropy over the demonstrator's own entropy: of look-ups, and of every choice."""

    def __init__(self) -> None:
        self._means: dict[str, float] = {}

    def __str__(self) -> str:
        return ", ".join(f"{name} {mean:.3f}" for name, mean in sorted(self._means.items()))

    def is_within(self, settings: WarmStart) -> bool:
        return all(
            mean < (settings.enough if name == "lookup" else settings.enough_of_choice)
            for name, mean in self._means.items()
        )

    def add(self, losses: torch.Tensor, wanted: Sequence[Mapping[int, float]]) -> None:
        seen: dict[str, list[float]] = {}
        for loss, distribution in zip(losses.tolist(), wanted, strict=True):
            if len(distribution) > 2:
                best = max(distribution, key=lambda token: distribution[token])
                name = f"choice of {best}" if distribution[best] < 0.5 else "lookup"
                entropy = -sum(p * math.log(p) for p in distribution.values())
                seen.setdefault(name, []).append(loss - entropy)
        for name, values in seen.items():
            mean = sum(values) / len(values)
            self._means[name] = 0.9 * self._means.get(name, 2.0) + 0.1 * mean


def _loss(model: PreTrainedModel, batch: Sequence[Sample], settings: WarmStart, excess: _Excess) -> torch.Tensor:
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
    excess.add(losses.detach(), wanted)
    weights = torch.tensor([_weight(one, settings) for one in wanted])
    return (losses * weights).sum() / weights.sum()


def _weight(distribution: Mapping[int, float], settings: WarmStart) -> float:
    if len(distribution) == 1:
        return settings.weight_of_form
    if max(distribution.values()) < 0.5:
        return settings.weight_of_choice
    return settings.weight_of_lookup if len(distribution) > 2 else 1.0


def _dense(distribution: Mapping[int, float], size: int) -> torch.Tensor:
    dense = torch.zeros(size)
    for token, probability in distribution.items():
        dense[token] = probability
    return dense

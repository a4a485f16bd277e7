"""Makes a tiny policy: a folder that transformers, verl and the plain ``tokenizers`` package load."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from lego_verl.policies.tiny.actions import ActionSet
from lego_verl.policies.tiny.conversation import Conversation, rendered
from lego_verl.policies.tiny.demonstrator import Habits
from lego_verl.policies.tiny.model_card import model_card
from lego_verl.policies.tiny.samples import Sample, Sampler
from lego_verl.policies.tiny.tokenizer import END, PAD, action_ids, fixed_passages, save_tokenizer, train_tokenizer
from lego_verl.policies.tiny.vary import Variations

if TYPE_CHECKING:
    from lego_verl.policies.tiny.warm_start import WarmStart

Kind = Literal["dense", "moe"]
VARIED = 0.9
"""Share of the warm start's samples that are variations of what was recorded."""


@dataclass(frozen=True)
class Recorded:
    """What was recorded of one harness."""

    actions: ActionSet
    """What the vocabulary holds as whole tokens; the conversations may use no others."""
    conversations: Sequence[Conversation]
    """One or two of every task that is trained on; see ``Demonstrator``."""


@dataclass(frozen=True)
class MadePolicy:
    """What came of it."""

    folder: Path
    vocabulary: int
    parameters: int
    losses: list[float] = field(repr=False)
    """Of every step of the warm start."""


def make_tiny_policy(
    recorded: Sequence[Recorded],
    out: Path,
    *,
    seed: int,
    kind: Kind = "dense",
    habits: Habits | None = None,
    settings: WarmStart | None = None,
) -> MadePolicy:
    """Train a tokenizer and a tiny model on recorded conversations and write them to ``out``.

    Takes torch and transformers, and about half a minute of one core. The same conversations and seed give the same
    files on the same machine.

    Args:
        recorded: of every harness that the policy is to work in.
        out: made if need be; its files are replaced.
        habits: the demonstrator's; the policy learns its probabilities in the situations that were recorded.
        settings: of the warm start.

    Raises:
        ValueError: without conversations, or when one has a turn that is not one whole action.
    """
    from lego_verl.policies.tiny.model import build_model
    from lego_verl.policies.tiny.warm_start import WarmStart, warm_start

    if not recorded or not all(each.conversations for each in recorded):
        raise ValueError("a tiny policy is made from recorded conversations, and there is none")
    habits = habits or Habits()
    texts = [[rendered(conversation) for conversation in each.conversations] for each in recorded]
    tokenizer = train_tokenizer([(each.actions, some) for each, some in zip(recorded, texts, strict=True)])
    drawn: list[tuple[Conversation, Sampler, Variations]] = []
    for each, some in zip(recorded, texts, strict=True):
        sampler = Sampler(tokenizer, each.actions, habits)
        variations = Variations(each.conversations, fixed_passages(some))
        for conversation in each.conversations:
            sampler.sample(conversation)
            drawn.append((conversation, sampler, variations))

    def draw(rng: random.Random) -> Sample:
        conversation, sampler, variations = rng.choice(drawn)
        return sampler.sample(variations.draw(conversation, rng) if rng.random() < VARIED else conversation)

    end, pad = tokenizer.token_to_id(END), tokenizer.token_to_id(PAD)
    said = [*dict.fromkeys(id for each in recorded for id in action_ids(tokenizer, each.actions).values()), end]
    size = tokenizer.get_vocab_size()
    model = build_model(kind, vocab_size=size, said=said, end_id=end, pad_id=pad, seed=seed)
    losses = warm_start(model, draw, seed=seed, settings=settings or WarmStart())
    save_tokenizer(tokenizer, out)
    model.save_pretrained(out)
    _write(out / "generation_config.json", {"eos_token_id": end, "pad_token_id": pad, "do_sample": True})
    made = MadePolicy(out, tokenizer.get_vocab_size(), sum(p.numel() for p in model.parameters()), losses)
    card = model_card(
        kind=kind,
        seed=seed,
        parameters=made.parameters,
        vocabulary=made.vocabulary,
        actions=[each.actions for each in recorded],
        conversations=len(drawn),
        habits=habits,
    )
    (out / "README.md").write_text(card)
    return made


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")

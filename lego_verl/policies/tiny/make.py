"""Makes a tiny policy: a folder that transformers, verl and the plain ``tokenizers`` package load."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from lego_verl.policies.tiny.actions import ActionSet, toy_actions
from lego_verl.policies.tiny.conversation import Conversation
from lego_verl.policies.tiny.demonstrator import Habits
from lego_verl.policies.tiny.model_card import model_card
from lego_verl.policies.tiny.samples import make_samples, render
from lego_verl.policies.tiny.tokenizer import END, PAD, action_ids, save_tokenizer, train_tokenizer


@dataclass(frozen=True)
class MadePolicy:
    """What came of it."""

    folder: Path
    vocabulary: int
    parameters: int
    losses: list[float] = field(repr=False)
    """Of every step of the warm start."""


def make_tiny_policy(
    conversations: Sequence[Conversation],
    out: Path,
    *,
    seed: int,
    kind: Literal["dense", "moe"] = "dense",
    actions: ActionSet | None = None,
    habits: Habits | None = None,
) -> MadePolicy:
    """Train a tokenizer and a tiny model on recorded conversations and write them to ``out``.

    Takes torch and transformers, and some 20 seconds of one core. The same conversations and seed give the same
    files on the same machine.

    Args:
        conversations: 48 or so, several of every task; see ``Demonstrator``.
        out: made if need be; its files are replaced.
        actions: what the vocabulary holds as whole tokens; the conversations may use no others.
        habits: those of the demonstrator that the conversations were recorded with.

    Raises:
        ValueError: without conversations, or when one has a turn that is not one whole action.
    """
    from lego_verl.policies.tiny.model import build_model
    from lego_verl.policies.tiny.warm_start import WarmStart, warm_start

    if not conversations:
        raise ValueError("a tiny policy is made from recorded conversations, and there is none")
    actions, habits = actions or toy_actions(), habits or Habits()
    tokenizer = train_tokenizer([render(conversation) for conversation in conversations], actions)
    samples = make_samples(conversations, tokenizer, actions, habits)
    end, pad = tokenizer.token_to_id(END), tokenizer.token_to_id(PAD)
    model = build_model(kind, vocab_size=tokenizer.get_vocab_size(), end_id=end, pad_id=pad, seed=seed)
    decisions = [list(action_ids(tokenizer, actions).values()), [end]]
    del decisions
    losses = warm_start(model, samples, seed=seed, settings=WarmStart())
    save_tokenizer(tokenizer, out)
    model.save_pretrained(out)
    _write(out / "generation_config.json", {"eos_token_id": end, "pad_token_id": pad, "do_sample": True})
    made = MadePolicy(out, tokenizer.get_vocab_size(), sum(p.numel() for p in model.parameters()), losses)
    (out / "README.md").write_text(model_card(made.parameters, made.vocabulary, kind, seed, actions, len(conversations)))
    return made


def _write(path: Path, content: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(content, indent=2) + "\n")

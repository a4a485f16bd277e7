"""A trainer and a rollout server for tests of the canary: real tiny models, and this project's own server."""

from __future__ import annotations

import asyncio
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
import transformers
from verl.utils.config import omega_conf_to_dataclass

from lego_verl.compose import compose_recipe
from lego_verl.workers.canary import Reading
from lego_verl.workers.canary_readings import own_reading
from lego_verl.workers.canary_sequences import canary_sequences
from lego_verl.workers.rollout.server import TransformersServer

VOCABULARY = 300
SIZES = {
    "vocab_size": VOCABULARY,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
    "initializer_range": 0.1,
}
EOS = 1


def make_model(moe: bool) -> Any:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if moe:
        config = transformers.Qwen3MoeConfig(
            **SIZES, moe_intermediate_size=64, num_experts=8, num_experts_per_tok=2, decoder_sparse_step=1
        )
        return transformers.Qwen3MoeForCausalLM(config).eval()
    return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**SIZES)).eval()


@cache
def sequences() -> list[list[int]]:
    texts = ["repair the loop in numbers.py", "a list is returned where a tuple is wanted"]
    return canary_sequences(lambda text: [ord(letter) for letter in text], texts, vocabulary=VOCABULARY, seed=3)


class Trainer:
    """What verl's actor does here: an optimizer that moves weights, their export, and log-probabilities of them."""

    def __init__(self, moe: bool, learning_rate: float = 1e-3) -> None:
        self.model = make_model(moe)
        self._optimizer = torch.optim.Adam(self.model.parameters(), lr=learning_rate)
        self._generator = torch.Generator().manual_seed(0)

    def update(self) -> None:
        """One step on what chance wrote."""
        ids = torch.randint(0, VOCABULARY, (2, 32), generator=self._generator)
        self._optimizer.zero_grad()
        self.model(input_ids=ids, labels=ids).loss.backward()
        self._optimizer.step()

    def export(self) -> dict[str, torch.Tensor]:
        """As verl's FSDP engine names them: one tensor an expert and projection."""
        exported: dict[str, torch.Tensor] = {}
        for name, value in self.model.state_dict().items():
            if name.endswith("experts.gate_up_proj"):
                for expert, tensor in enumerate(value):
                    gate, up = tensor.chunk(2)
                    exported[name.replace("gate_up_proj", f"{expert}.gate_proj.weight")] = gate.clone()
                    exported[name.replace("gate_up_proj", f"{expert}.up_proj.weight")] = up.clone()
            elif name.endswith("experts.down_proj"):
                for expert, tensor in enumerate(value):
                    exported[name.replace("down_proj", f"{expert}.down_proj.weight")] = tensor.clone()
            else:
                exported[name] = value.clone()
        return exported

    @torch.no_grad()
    def read(self) -> Reading:
        scores = []
        for sequence in sequences():
            ids = torch.tensor(sequence)
            logprobs = self.model(input_ids=ids[None]).logits[0, :-1].float().log_softmax(-1)
            scores.append(logprobs.gather(-1, ids[1:, None])[:, 0].numpy())
        return Reading(np.concatenate(scores))


def make_server(folder: Path, moe: bool, *overrides: str) -> TransformersServer:
    """This project's rollout server, not as a Ray actor but otherwise as a recipe starts it.

    Args:
        folder: where the model that it starts from is put.
        overrides: of the recipe; ``rollout.`` stands for ``actor_rollout_ref.rollout.``.
    """
    if not (folder / "config.json").exists():
        model = make_model(moe)
        model.generation_config.eos_token_id = EOS
        model.save_pretrained(folder)
    routed = f"rollout.enable_rollout_routing_replay={str(moe).lower()}"
    return TransformersServer(_rollout(routed, *overrides), SimpleNamespace(local_path=str(folder)))  # type: ignore[arg-type]


@cache
def _rollout(*overrides: str) -> Any:
    given = [each.replace("rollout.", "actor_rollout_ref.rollout.", 1) for each in overrides]
    return omega_conf_to_dataclass(compose_recipe(given).actor_rollout_ref.rollout)


def read(server: TransformersServer) -> Reading:
    return own_reading(asyncio.run(server.canary(sequences())))

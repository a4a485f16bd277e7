"""Trials whole and split, a policy of bigrams, and verl's actor update on them without its processes.

The policy's only parameter is a table of logits (previous token, token), so that the log-probabilities of a trial's
tokens are the same in whatever row they stand: what differs between whole and split is the loss alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from hypothesis import strategies as st
from tensordict import NonTensorStack, TensorDict
from transfer_queue import KVBatchMeta
from verl.utils import tensordict_utils as tu
from verl.workers.config import FSDPActorConfig, FSDPEngineConfig, FSDPOptimizerConfig, PolicyLossConfig
from verl.workers.utils.losses import ppo_loss

VOCABULARY = 7


def nested(rows: list[torch.Tensor]) -> torch.Tensor:
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


@dataclass(frozen=True)
class Trial:
    group: int
    reward: float
    turns: tuple[int, ...]
    """Sampled tokens of each turn; a context token stands between two turns."""
    cuts: frozenset[int]
    """Turns at which a new segment begins when the trial is split."""
    first: int
    """What the tokens are counted from: token p of the trial is (first + p * p) mod VOCABULARY."""

    def rows(self, *, split: bool) -> list[dict[str, torch.Tensor]]:
        """verl's fields of each of its segments, as ``agent_loop_tq.py`` makes them."""
        mask = [0]
        starts = []
        for length in self.turns:
            starts.append(len(mask))
            mask += [1] * length + [0]
        ids = [(self.first + position * position) % VOCABULARY for position in range(len(mask))]
        begins = [0, *sorted(self.cuts)] if split else [0]
        ends = [*begins[1:], len(self.turns)]
        return [
            self._row(ids, mask, starts[begin], starts[end - 1] + self.turns[end - 1])
            for begin, end in zip(begins, ends, strict=True)
        ]

    def _row(self, ids: list[int], mask: list[int], start: int, stop: int) -> dict[str, torch.Tensor]:
        tokens = torch.tensor(ids[:stop])
        response_mask = torch.tensor(mask[start:stop])
        scores = torch.zeros(stop - start)
        scores[-1] = self.reward
        return {
            "prompts": tokens[:start],
            "responses": tokens[start:],
            "input_ids": tokens,
            "position_ids": torch.arange(stop),
            "response_mask": response_mask,
            "loss_mask": response_mask,
            "rm_scores": scores,
            "rollout_log_probs": torch.full((stop - start,), -1.0),
        }


@st.composite
def steps(draw: st.DrawFn, groups: int = 2, per_group: int = 3) -> list[Trial]:
    """A step's trials, some of which have cuts."""
    made = []
    for group in range(groups):
        for _ in range(per_group):
            turns = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)))
            cuts = draw(st.sets(st.integers(1, len(turns) - 1))) if len(turns) > 1 else set()
            reward = draw(st.sampled_from([0.0, 1.0, 0.25]))
            made.append(Trial(group, reward, turns, frozenset(cuts), draw(st.integers(0, VOCABULARY - 1))))
    return made


ONE_SPLIT = [
    Trial(0, 1.0, (4, 1, 2), frozenset({1, 2}), 0),
    Trial(0, 0.0, (3, 3), frozenset(), 1),
    Trial(1, 1.0, (2,), frozenset(), 2),
    Trial(1, 0.0, (5, 1), frozenset(), 3),
]
"""Two groups of two trials; the first trial becomes three segments."""


class Store:
    """TransferQueue's key-value calls, in this process."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}

    def kv_batch_get(self, keys: Sequence[str], partition_id: str, select_fields: Any = None) -> Any:
        fields = select_fields or list(self.rows[keys[0]])
        present = [name for name in fields if all(name in self.rows[key] for key in keys)]
        values = {name: [self.rows[key][name] for key in keys] for name in present}
        columns = {
            name: nested(column) if isinstance(column[0], torch.Tensor) else NonTensorStack(*column)
            for name, column in values.items()
        }
        return TensorDict(columns, batch_size=[len(keys)])

    def kv_batch_put(self, keys: Sequence[str], partition_id: str, fields: Any, tags: Any = None) -> KVBatchMeta:
        for name, column in fields.items():
            values = column.unbind() if isinstance(column, torch.Tensor) else [row[name] for row in fields]
            for key, value in zip(keys, values, strict=True):
                self.rows.setdefault(key, {})[name] = value
        return KVBatchMeta(keys=list(keys), tags=tags or [{} for _ in keys], partition_id=partition_id)

    def compute_old_log_probs(self) -> None:
        """As verl does after it padded the batch. The ratio to the policy's is inside the clip for some tokens only."""
        for row in self.rows.values():
            row["old_log_probs"] = -2.0 + 0.1 * row["responses"]

    def fill(self, trials: Sequence[Trial], *, split: bool) -> KVBatchMeta:
        keys, tags = [], []
        for session, trial in enumerate(trials):
            for index, row in enumerate(trial.rows(split=split)):
                key = f"group{trial.group}_{session}_{index}"
                self.rows[key] = {**row, "uid": f"group{trial.group}"}
                keys.append(key)
                tags.append({"seq_len": len(row["input_ids"])})
        return KVBatchMeta(keys=keys, tags=tags, partition_id="train")


class Workers:
    """The actor's workers: verl's cuts by rank, mini-batch and micro-batch, its loss, and no optimizer."""

    def __init__(self, store: Store, *, ranks: int, mode: str, micro: int, loss: str = "vanilla", scale: int = 8):
        self.store, self.ranks, self.micro = store, ranks, micro
        self._dispatch_info = {"actor": list(range(ranks))}
        self.config = actor_config(mode, loss, scale)
        self.gradients: list[torch.Tensor] = []
        """Of each optimizer step."""

    def update_actor(self, batch: KVBatchMeta) -> Any:
        info = batch.extra_info
        size, epochs = info["mini_batch_size"], info["epochs"]
        assert size % self.ranks == 0
        share = len(batch) // self.ranks
        per_rank = []
        for rank in range(self.ranks):
            data = self.store.kv_batch_get(batch.keys[rank * share : (rank + 1) * share], "train")
            iterator = tu.make_iterator(
                data,
                mini_batch_size=size // self.ranks,
                epochs=epochs,
                seed=info["seed"] + rank,
                dataloader_kwargs=info["dataloader_kwargs"],
            )
            per_rank.append(list(iterator))
        for parts in zip(*per_rank, strict=True):
            self.gradients.append(gradient(parts, self.config, self.micro, info["global_batch_size"]))
        return tu.get_tensordict({}, non_tensor_dict={"metrics": {"mfu": [0.0]}})


def gradient(parts: Sequence[Any], config: FSDPActorConfig, micro: int, global_batch_size: int) -> torch.Tensor:
    """What FSDP's ranks average to, of one mini-batch, as in ``FSDPEngine.forward_backward_batch``."""
    table = torch.linspace(-1, 1, VOCABULARY * VOCABULARY, dtype=torch.float64).reshape(VOCABULARY, -1)
    table.requires_grad_()
    tokens = sum(float(part["loss_mask"].sum()) for part in parts)
    for part in parts:
        for start in range(0, len(part), micro):
            data = tu.index_select_tensor_dict(part, list(range(start, min(start + micro, len(part)))))
            tu.assign_non_tensor(data, dp_size=len(parts), batch_num_tokens=tokens, global_batch_size=global_batch_size)
            rows = [torch.as_tensor(ids) for ids in data["input_ids"].unbind()]
            log_probs = [
                torch.cat([table.log_softmax(-1)[ids[:-1], ids[1:]], torch.zeros(1, dtype=table.dtype)]) for ids in rows
            ]
            loss, _ = ppo_loss(config, {"log_probs": nested(log_probs)}, data)
            (loss / len(parts)).backward()
    assert table.grad is not None
    return table.grad


def actor_config(mode: str, loss: str = "vanilla", scale: int = 8) -> FSDPActorConfig:
    optim = FSDPOptimizerConfig(lr=1e-3, total_training_steps=1)
    return FSDPActorConfig(
        strategy="fsdp2",
        rollout_n=2,
        ppo_mini_batch_size=2,
        ppo_micro_batch_size_per_gpu=1,
        loss_agg_mode=mode,
        loss_scale_factor=scale,
        policy_loss=PolicyLossConfig(loss_mode=loss),
        optim=optim,
        fsdp_config=FSDPEngineConfig(strategy="fsdp2"),
    )

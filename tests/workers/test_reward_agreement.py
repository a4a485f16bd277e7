"""Whether the rewards that are trained with follow the verdicts, read from verl's queue."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import transfer_queue as tq
from hypothesis import given
from hypothesis import strategies as st
from transfer_queue import KVBatchMeta

from lego_verl.workers.reward_agreement import agreement, step_agreement
from lego_verl.workers.shuffled_rewards import shuffle_rewards


def test_what_is_trained_with_what_was_earned_agrees() -> None:
    assert agreement([1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 1.0, 0.0]) == {"equal": 1.0, "pairs": 4.0, "order": 1.0}
    assert agreement([0.0, 1.0, 1.0, 0.0], [1.0, 0.0, 1.0, 0.0]) == {"equal": 0.5, "pairs": 4.0, "order": 0.25}
    assert agreement([0.7, -0.2], [1.0, 0.0]) == {"equal": 0.0, "pairs": 1.0, "order": 1.0}, "a shaped reward"
    assert agreement([1.0, 1.0], [1.0, 0.0]) == {"equal": 0.5, "pairs": 1.0, "order": 0.0}, "and one that says nothing"
    assert agreement([0.0, 0.0], [0.0, 0.0]) == {"equal": 1.0, "pairs": 0.0}
    assert agreement([], []) == {}


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([0.0, 0.3, 1.0])), min_size=1, max_size=20))
def test_it_counts_pairs(trials: list[tuple[float, float]]) -> None:
    trained, verdicts = [t for t, _ in trials], [v for _, v in trials]
    pairs = [(a, b) for a in range(len(trials)) for b in range(len(trials)) if verdicts[a] > verdicts[b]]
    found = agreement(trained, verdicts)
    assert found["pairs"] == len(pairs)
    if pairs:
        assert found["order"] == pytest.approx(np.mean([trained[a] > trained[b] for a, b in pairs]))


class Queue:
    """verl's queue, as one dictionary of fields by key."""

    def __init__(self) -> None:
        self.rows: dict[str, dict] = {}

    def kv_batch_get(self, keys: list[str], partition_id: str, select_fields: list[str]) -> dict:
        columns = {name: [self.rows[key][name] for key in keys] for name in select_fields}
        return {
            name: torch.nested.as_nested_tensor(rows, layout=torch.jagged) if torch.is_tensor(rows[0]) else rows
            for name, rows in columns.items()
        }

    def kv_batch_put(self, keys: list[str], partition_id: str, fields: dict) -> None:
        for name in list(fields.keys()):
            for key, row in zip(keys, fields[name].unbind(), strict=True):
                self.rows[key][name] = row


def test_the_control_experiment_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    queue = Queue()
    monkeypatch.setattr(tq, "kv_batch_get", queue.kv_batch_get)
    monkeypatch.setattr(tq, "kv_batch_put", queue.kv_batch_put)
    verdicts, keys, tags = {}, [], []
    for number in range(16):
        reward = float(number % 4 == 0)
        verdicts[f"trial-{number}"] = reward
        for segment in range(1 + number % 2):  # some trials are split
            keys.append(f"g_{number}_{segment}")
            tags.append({})
            queue.rows[keys[-1]] = {
                "rm_scores": torch.tensor([0.0, 0.0, reward]),
                "response_mask": torch.ones(3, dtype=torch.long),
                "extra_fields": {"segment_of": (1, f"trial-{number}", segment)},
            }
    keys.append("pad_0_0")
    tags.append({"is_padding": True})
    batch = KVBatchMeta(partition_id="train", keys=keys, tags=tags)
    assert step_agreement(batch, verdicts) == {"equal": 1.0, "pairs": 48.0, "order": 1.0}
    shuffle_rewards(batch, seed=1, step=1)
    found = step_agreement(batch, verdicts)
    assert found["order"] < 0.5
    assert found["equal"] < 1.0
    # What the ledger does not know, and a trial whose rows disagree, are left out.
    queue.rows["g_1_0"]["rm_scores"] = torch.tensor([0.0, 0.0, 9.0])
    assert step_agreement(batch, {"trial-1": 1.0, "unknown": 1.0}) == {}

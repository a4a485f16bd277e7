"""The trainer's side of a step's tokens is written with what verl's queue holds of them, and stops nothing."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transfer_queue as tq
from small_disk import with_small_disk
from transfer_queue import KVBatchMeta

from lego_verl.compose import compose_recipe
from lego_verl.config import typed
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.monitor.trained_tokens import TrainedSegment, read_trained, trained_file
from lego_verl.workers import trained_tokens
from lego_verl.workers.step_account import StepAccount
from lego_verl.workers.trained_tokens import TrainedTokens, segments_of
from lego_verl.workers.trainer import HarnessTrainer

MASKS = [np.array([1, 0, 1, 1], dtype=bool), np.array([1, 1], dtype=bool), np.array([1, 1], dtype=bool)]
TAGS: list[dict[str, Any]] = [{}, {}, {"is_padding": True}]


def nested(*rows: list[float]) -> torch.Tensor:
    return torch.nested.as_nested_tensor([torch.tensor(row, dtype=torch.float32) for row in rows], layout=torch.jagged)


def queue_of(**more: torch.Tensor) -> dict[str, Any]:
    """Two segments of a trial and a padding row, as verl's queue holds them once advantages are known."""
    return {
        "response_mask": nested([1, 0, 0, 1], [1, 1], [0, 0]),  # rollout correction took out the third token
        "old_log_probs": nested([-1, 0, -2, -3], [-4, -5], [0, 0]),
        "entropy": nested([0.5, 9, 0.25, 0.125], [1, 2], [0, 0]),
        "advantages": nested([0.5, 0, 0, 0.5], [0.5, 0.5], [0, 0]),
        "extra_fields": [{"segment_of": (3, "t", 0)}, SimpleNamespace(data={"segment_of": (3, "t", 2)}), {}],
        **more,
    }


def test_each_token_with_loss_has_what_the_trainer_knew_of_it() -> None:
    first, second = segments_of(queue_of(), TAGS, MASKS, compared=True)
    assert (first.began, first.trial, first.segment) == (3, "t", 0)
    assert (second.segment, second.rejected, second.weights) == (2, None, None)
    assert first.logprobs is not None
    assert first.logprobs.tolist() == [-1, -2, -3], "context has none, and a token that was taken out keeps its own"
    assert first.rejected is not None
    assert first.rejected.tolist() == [False, True, False]
    assert first.entropies is not None
    assert first.entropies.tolist() == [0.5, 0.25, 0.125]
    weighed = segments_of(queue_of(rollout_is_weights=nested([2, 0, 0, 1], [3, 1], [0, 0])), TAGS, MASKS, compared=True)
    assert weighed[0].weights is not None
    assert weighed[0].weights.tolist() == [2, 0, 1]


def test_what_the_rollout_said_is_not_called_the_trainers() -> None:
    for segment in segments_of(queue_of(), TAGS, MASKS, compared=False):
        assert segment.logprobs is None
        assert segment.entropies is None


@pytest.fixture
def step(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """verl's queue; its ``response_mask`` is whole until verl computes advantages."""
    held = queue_of()
    corrected, held["response_mask"] = held["response_mask"], nested([1, 0, 1, 1], [1, 1], [0, 0])
    monkeypatch.setattr(
        tq, "kv_batch_get", lambda keys, partition_id, select_fields: {n: held[n] for n in select_fields if n in held}
    )

    def compute(self: Any, batch: KVBatchMeta, metrics: dict) -> KVBatchMeta:
        held["response_mask"] = corrected
        return batch

    monkeypatch.setattr("verl.trainer.ppo.v1.trainer_base.PPOTrainer._compute_advantage", compute)
    monkeypatch.setattr("lego_verl.workers.trainer.step_agreement", lambda batch, rewards: {})
    return held


BATCH = KVBatchMeta(partition_id="train", keys=["g_0_0", "g_0_1", "pad_0_0"], tags=TAGS)


def trainer(run: RunFolder, *overrides: str) -> HarnessTrainer:
    made = object.__new__(HarnessTrainer)
    made.config = compose_recipe(list(overrides))
    made._lego, made.global_steps, made.timing_raw, made._run = typed(made.config), 5, {}, run
    made._mini_batches, made._account, made._trained_tokens = None, StepAccount(5, "train"), made._tokens_for_people()
    return made


def test_a_step_writes_its_file_between_advantages_and_update(tmp_path: Path, step: dict[str, Any]) -> None:
    run = RunFolder(tmp_path)
    made = trainer(run)
    made._compute_advantage(BATCH, {})
    read = read_trained(run, 5, "t")
    assert list(read) == [0, 2]
    assert read[0].rejected is not None
    assert read[0].rejected.tolist() == [False, True, False]
    assert made.timing_raw["trained_tokens"] > 0


@pytest.mark.parametrize("off", ["monitor.trained_tokens=false", "monitor.keep_trials=false"])
def test_a_recipe_can_do_without(tmp_path: Path, step: dict[str, Any], off: str) -> None:
    run = RunFolder(tmp_path)
    made = trainer(run, off)
    made._compute_advantage(BATCH, {})
    assert not run.trained.exists()
    assert "trained_tokens" not in made.timing_raw


def test_what_cannot_be_written_is_said_once_and_once_that_it_is_again(
    tmp_path: Path, step: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    run, said = RunFolder(tmp_path), []
    kept = TrainedTokens(run, compared=True, say=said.append)
    write = trained_tokens.write_trained

    def full(path: Path, segments: list[TrainedSegment]) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(trained_tokens, "write_trained", full)
    assert [kept.write(BATCH, number, MASKS) for number in (1, 2)] == [False, False]
    assert len(said) == 1
    assert "No space left on device" in said[0]
    monkeypatch.setattr(trained_tokens, "write_trained", write)
    assert [kept.write(BATCH, number, MASKS) for number in (3, 4)] == [True, True]
    assert len(said) == 2
    assert said[1].endswith("is written again")
    assert trained_file(run, 4).exists()


FULL = """
import sys
from pathlib import Path
import numpy as np
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.monitor.trained_tokens import TrainedSegment, read_trained, trained_file, write_trained

run = RunFolder(Path(sys.argv[1]))
noise = np.random.default_rng(0).standard_normal(100_000, dtype=np.float32)
for number, tokens in enumerate((1_000, 400_000, 1_000), 1):
    segment = TrainedSegment(1, "t", 0, np.ones(tokens, np.float32), logprobs=np.resize(noise, tokens) * tokens)
    try:
        write_trained(trained_file(run, number), [segment])
        print("written", len(read_trained(run, number, "t")))
    except OSError as error:
        print("not written", error.errno, sorted(path.name for path in run.trained.iterdir()))
"""


def test_a_full_disk_leaves_no_part_behind(tmp_path: Path) -> None:
    done = with_small_disk(tmp_path, "-c", FULL, str(tmp_path), size=1 << 18)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == ["written 1", "not written 28 ['0001.parquet']", "written 1"]

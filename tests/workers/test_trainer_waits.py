"""The trainer does not wait for trials that nobody runs any more."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import ray

from lego_verl.compose import compose_recipe
from lego_verl.config import typed
from lego_verl.trial.ledger import LedgerError
from lego_verl.workers import trainer as module
from lego_verl.workers.trainer import HarnessTrainer


class Ledger:
    """Answers as the run's ledger does; ``asked`` is what it was asked."""

    def __init__(self) -> None:
        self.says, self.asked = "", []  # type: tuple[str, list[tuple[Any, ...]]]
        self.overdue = SimpleNamespace(remote=self._overdue)

    def _overdue(self, *question: Any) -> str:
        self.asked.append(question)
        return self.says


def waiting(monkeypatch: pytest.MonkeyPatch) -> tuple[HarnessTrainer, Ledger, list[str]]:
    """A trainer that waits for a step, its ledger, and the partitions for which verl has looked again."""
    monkeypatch.setattr(module, "_LOOK_SECONDS", -1.0)
    monkeypatch.setattr(ray, "get", lambda answer, timeout: answer)
    looked: list[str] = []

    def wait(partition: str, last: float) -> float:
        looked.append(partition)
        return last

    trainer, ledger = object.__new__(HarnessTrainer), Ledger()
    trainer._lego, trainer._ledger, trainer.global_steps = typed(compose_recipe([])), ledger, 7
    trainer.replay_buffer = SimpleNamespace(_wait_for_next_poll=wait)
    trainer._wait_with_deadline()
    return trainer, ledger, looked


def test_verl_waits_while_something_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, ledger, looked = waiting(monkeypatch)
    assert trainer.replay_buffer._wait_for_next_poll("train", 3.0) == 3.0
    assert trainer.replay_buffer._wait_for_next_poll("val", 4.0) == 4.0
    assert looked == ["train", "val"]
    assert [question[:2] for question in ledger.asked] == [(7, "train"), (7, "heldout")]
    limits = trainer._lego.harness.seconds + trainer._lego.trial.start_seconds + trainer._lego.trial.grading_seconds
    assert all(question[2] > limits for question in ledger.asked)


def test_and_no_longer(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, ledger, looked = waiting(monkeypatch)
    ledger.says = "step 7 (train): nothing has happened for 9 s; waiting for a"
    with pytest.raises(LedgerError, match="waiting for a"):
        trainer.replay_buffer._wait_for_next_poll("train", 3.0)
    assert looked == []


def test_a_ledger_that_does_not_answer_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    trainer, _, _ = waiting(monkeypatch)

    def never(answer: object, timeout: float) -> object:
        raise ray.exceptions.GetTimeoutError

    monkeypatch.setattr(ray, "get", never)
    with pytest.raises(LedgerError, match="step 7: waited 120 s for the run's ledger to answer"):
        trainer.replay_buffer._wait_for_next_poll("train", 3.0)

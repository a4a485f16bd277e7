"""What a step tells, and to whom; and what a trainer does when it stops or cannot save."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync

from lego_verl.config import MonitorConfig
from lego_verl.monitor.run_folder import RunFolder, read_lines
from lego_verl.trial.ledger import LedgerError
from lego_verl.workers.canary import WeightSyncError
from lego_verl.workers.step_account import StepAccount
from lego_verl.workers.step_line import step_line
from lego_verl.workers.step_report import StepReport
from lego_verl.workers.trainer import HarnessTrainer


class Ledger:
    """The ledger's actor: what it was asked; its answers are ready, late, or an error."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.asked: list[tuple[Any, ...]] = []
        self.late = self.broken = False
        self.measured = self.stopped = SimpleNamespace(remote=self._ask)
        monkeypatch.setattr(ray, "wait", lambda questions, timeout: ([], questions) if self.late else (questions, []))
        monkeypatch.setattr(ray, "get", self._answer)

    def _ask(self, *question: Any, **more: Any) -> tuple[Any, ...]:
        self.asked.append((*question, more))
        return question

    def _answer(self, question: tuple[Any, ...], timeout: float | None = None) -> Any:
        if self.broken:
            raise ray.exceptions.RayActorError
        news = {"name": "signal", "severity": "warning", "message": f"m{question[0]}", "look": "#/", "state": "open"}
        return {"news": [news], "open": {"signal": 1, "entropy": 0}, "trials": [["a"]]}


class Wandb:
    """The module, with a run that is open."""

    AlertLevel = SimpleNamespace(ERROR="ERROR", WARN="WARN", INFO="INFO")
    run = True

    def __init__(self) -> None:
        self.alerts: list[str] = []
        self.tables: list[int] = []

    def alert(self, title: str, text: str, level: str) -> None:
        self.alerts.append(f"{title}: {text} {level}")

    def Table(self, columns: list[str], data: list[Any]) -> int:
        return len(data)

    def log(self, values: dict[str, Any], step: int) -> None:
        self.tables.append(step)


def line(step: int) -> dict[str, Any]:
    account = StepAccount(step, "train", monitoring={"ledger": 0.2, "workers": 0.3})
    how = {"alignment": None, "agreement": {"equal": 1.0}, "heldout": None, "seconds": 100.0, "reporting": 0.4}
    return step_line(account, {}, timing={"alignment": 0.1, "update_actor": 50.0}, **how)


def test_a_step_is_told_to_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ledger, wandb = Ledger(monkeypatch), Wandb()
    report = StepReport(RunFolder(tmp_path), ledger, MonitorConfig(table_rows=7))
    metrics: dict[str, Any] = {"actor/entropy": 0.5}
    report.step(3, line(3), metrics, {"console": object(), "wandb": wandb})
    assert json.loads((tmp_path / "metrics.jsonl").read_text())["step"] == 3
    (asked,) = ledger.asked
    assert asked[0] == 3
    assert asked[2] == {"rows": 7}
    assert asked[1]["actor/entropy"] == 0.5
    assert asked[1]["disk/free_bytes"] > 0
    assert {name: metrics[name] for name in ("alerts/signal", "alerts/entropy")} == {
        "alerts/signal": 1.0,
        "alerts/entropy": 0.0,
    }
    assert metrics["lego/reward_agreement/equal"] == 1.0
    assert metrics["lego/monitoring_share"] == pytest.approx(0.01)
    assert wandb.tables == [3]
    assert wandb.alerts == ["step 3: signal: m3 (#/) WARN"]
    assert report.spent.take() > 0
    report.heldout({"step": 3})
    assert list(read_lines(tmp_path / "heldout.jsonl")) == [{"step": 3}]
    report.step(4, line(4), {}, {"console": object()})
    assert ledger.asked[-1][2] == {"rows": 0}, "nobody takes a table"


def test_a_ledger_that_is_late_or_gone_holds_nothing_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger, wandb = Ledger(monkeypatch), Wandb()
    report = StepReport(RunFolder(tmp_path), ledger, MonitorConfig())
    ledger.late = True
    metrics: dict[str, Any] = {}
    report.step(1, line(1), metrics, {"wandb": wandb})
    assert not any(name.startswith("alerts/") for name in metrics)
    ledger.late = False
    report.step(2, line(2), metrics, {"wandb": wandb})
    assert wandb.alerts == ["step 1: signal: m1 (#/) WARN", "step 2: signal: m2 (#/) WARN"]
    ledger.broken = True
    report.step(3, line(3), metrics, {"wandb": wandb})
    assert "ALERTS: nothing is known of step 3" in capsys.readouterr().err


@pytest.mark.parametrize("broken", [False, True], ids=["", "the ledger is gone"])
@pytest.mark.parametrize(
    ("error", "name"),
    [(WeightSyncError("the weights did not arrive"), "canary"), (LedgerError("step 2: lost"), "stopped")],
)
def test_why_a_run_stops_is_an_alert_and_is_heard(
    error: Exception, name: str, broken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(self: Any, *_: Any) -> None:
        raise error

    made, ledger = object.__new__(HarnessTrainer), Ledger(monkeypatch)
    made._ledger, made.global_steps, ledger.broken = ledger, 2, broken
    monkeypatch.setattr(PPOTrainerSync, "fit", failing)
    with pytest.raises(type(error)) as raised:
        made.fit(None)
    assert raised.value is error
    (told,) = ledger.asked
    assert told[:3] == (2, name, str(error))


@pytest.mark.parametrize(
    ("step", "owed", "again"), [(5, True, True), (6, True, False), (5, False, False), (8, True, False)]
)
def test_what_could_not_be_saved_is_tried_again_after_every_step(
    step: int, owed: bool, again: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In step 6 verl saves by itself, and in the last, 8."""
    saved: list[int] = []
    made = object.__new__(HarnessTrainer)
    made.config, made.total_training_steps = SimpleNamespace(trainer=SimpleNamespace(save_freq=3)), 8
    made._checkpoints = SimpleNamespace(owed=owed, save=lambda number, write, last: saved.append(number))
    made.global_steps, made._canary = step, None
    monkeypatch.setattr(PPOTrainerSync, "on_step_end", lambda self: None)
    made.on_step_end()
    assert saved == ([step] if again else [])

"""Hands a step's numbers to everyone who is told of it: metrics.jsonl, the store, verl's loggers."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any

import ray

from lego_verl.config import MonitorConfig
from lego_verl.monitor.alerts.clock import FREE
from lego_verl.monitor.disk import free_bytes
from lego_verl.monitor.kept_lines import KeptLines
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.monitor.spent import Spent
from lego_verl.workers.step_line import logged
from lego_verl.workers.tracking import log_alerts, log_trials

_WAIT_SECONDS = 3.0
"""For what the ledger has to tell of a step, a matter of milliseconds; what is later comes with the next step."""


class StepReport:
    """Of one run.

    Args:
        ledger: the actor.
    """

    def __init__(self, run: RunFolder, ledger: Any, monitor: MonitorConfig) -> None:
        self._run, self._ledger, self._rows = run, ledger, monitor.table_rows
        self._metrics, self._heldout = KeptLines(run.metrics), KeptLines(run.heldout)
        self.spent = Spent()
        """Seconds of the trainer that went into what is for people."""
        self._late: list[tuple[int, Any]] = []

    def heldout(self, line: Mapping[str, Any]) -> None:
        with self.spent:
            self._heldout.append(line)

    def step(self, step: int, line: dict[str, Any], metrics: dict[str, Any], loggers: Mapping[str, Any]) -> None:
        """Write a step; ``metrics``, which verl logs afterwards, gets what is this project's own.

        Args:
            line: ``step_line``.
            loggers: verl's, by name.
        """
        with self.spent:
            self._metrics.append(line)
            metrics.update(logged(line))
            if (free := free_bytes(self._run)) is not None:
                metrics[FREE] = float(free)
            numbers = {name: float(value) for name, value in metrics.items() if isinstance(value, int | float)}
            rows = self._rows if {"wandb", "tensorboard"} & set(loggers) else 0
            self._late.append((step, self._ledger.measured.remote(step, numbers, rows=rows)))
            self._tell(metrics, loggers)

    def _tell(self, metrics: dict[str, Any], loggers: Mapping[str, Any]) -> None:
        while self._late:
            step, question = self._late[0]
            ready, _ = ray.wait([question], timeout=_WAIT_SECONDS)
            if not ready:
                return
            self._late.pop(0)
            try:
                found = ray.get(question)
            except ray.exceptions.RayError as error:  # what is for people stops nothing
                print(f"lego_verl: ALERTS: nothing is known of step {step}: {error}", file=sys.stderr, flush=True)
                continue
            metrics.update({f"alerts/{name}": float(value) for name, value in found["open"].items()})
            log_trials(loggers, step, found["trials"])
            log_alerts(loggers, step, found["news"])

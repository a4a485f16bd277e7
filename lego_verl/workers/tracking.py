"""What verl's loggers get beside numbers: a table of each step's trials, and alerts.

verl's own ``Tracking`` (verl/utils/tracking.py) makes the loggers that ``trainer.logger`` names, and gives each the
numbers of a step under the same names that the run store has. Here its wandb and tensorboard are used for the rest;
other loggers get the numbers, among them ``alerts/<name>`` (1 while one is open).
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from lego_verl.monitor.store_text import one_line
from lego_verl.monitor.trial_table import COLUMNS

TABLE, ALERTS = "trials", "alerts"


class LoudTracking:
    """verl's ``Tracking``, but for a disk that cannot be written: it says so, and the run goes on without it."""

    def __init__(self, tracking: Any) -> None:
        self._tracking = tracking
        self._trouble = ""

    def log(self, data: Mapping[str, Any], step: int, backend: Any = None) -> None:
        try:
            self._tracking.log(data=data, step=step, backend=backend)
            self._trouble = ""
        except OSError as error:
            if not self._trouble:
                _say(f"a logger of trainer.logger cannot write: {error}. Its numbers are in the run's store")
            self._trouble = str(error)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tracking, name)


def log_trials(loggers: Mapping[str, Any], step: int, rows: Sequence[Sequence[Any]]) -> None:
    """Write the table of a step's trials.

    Args:
        loggers: ``Tracking.logger``, by name.
        rows: ``trial_table``.
    """
    if not rows:
        return
    if wandb := _wandb(loggers):
        wandb.log({TABLE: wandb.Table(columns=list(COLUMNS), data=[_plain(row) for row in rows])}, step=step)
    if (tensorboard := loggers.get("tensorboard")) is not None:
        tensorboard.writer.add_text(TABLE, markdown(rows), step)


def log_alerts(loggers: Mapping[str, Any], step: int, news: Sequence[Mapping[str, Any]]) -> None:
    """Tell what is new of the alerts (``AlertBook.take``)."""
    wandb, tensorboard = _wandb(loggers), loggers.get("tensorboard")
    for each in news:
        text = f"{each['message']} ({each['look']})"
        if wandb:
            level = wandb.AlertLevel.ERROR if each["severity"] == "critical" else wandb.AlertLevel.WARN
            level = wandb.AlertLevel.INFO if each["state"] == "closed" else level
            wandb.alert(title=f"step {step}: {each['name'].replace('_', ' ')}", text=text, level=level)
        if tensorboard is not None:
            tensorboard.writer.add_text(ALERTS, f"**{each['name']}** ({each['state']}): {_cell(text)}", step)


def markdown(rows: Sequence[Sequence[Any]]) -> str:
    """A table as tensorboard shows it."""
    lines = [COLUMNS, ["---"] * len(COLUMNS), *rows]
    return "\n".join("| " + " | ".join(_cell(cell) for cell in line) + " |" for line in lines)


def _wandb(loggers: Mapping[str, Any]) -> Any:
    """The module of wandb where a run of it is open."""
    wandb = loggers.get("wandb")
    return wandb if wandb is not None and wandb.run is not None else None


def _plain(row: Sequence[Any]) -> list[Any]:
    return [one_line(cell, 200) if isinstance(cell, str) else cell for cell in row]


def _cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, float):
        return f"{value:.4g}"
    text = one_line(value, 600)
    for character in "\\|<>`*_[]":  # of markdown; a name of a trial or task is what its author chose
        text = text.replace(character, f"\\{character}")
    return text


def _say(line: str) -> None:
    print(f"lego_verl: {line}", file=sys.stderr, flush=True)

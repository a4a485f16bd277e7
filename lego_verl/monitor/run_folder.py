"""Where a run keeps everything. The layout is documented in docs/01-first-run.md and stays.

runs/<name>/
    recipe.yaml          the resolved recipe
    versions.json        of the packages that matter, and of the machine
    metrics.jsonl        one line a step
    events.jsonl         trials started and finished, as they happen
    heldout.jsonl        one line an evaluation of the held-out tasks
    trials/<step>/<id>/  trial.json, patch.diff, harness.log, grading.log, calls.jsonl, tokens.npz
    logs/                what the processes printed
    policy/              the policy that training began with
    tasks/               the generated tasks
    checkpoints/         verl's checkpoints
    regrade.jsonl        one line a trial that was graded again
    audit.jsonl          what an audit found
    report.html          what `lego_verl.report` wrote
    wandb/, tensorboard/ of the loggers that `trainer.logger` names
    store.sqlite         the run store: trials, calls, metrics, events (store_schema.py); made again from the rest
    tokens/              token arrays of old steps, a Parquet file each (store_tokens.py)
    trained/             what the trainer knew of each token, a Parquet file a step (trained_tokens.py)
"""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class RunFolder:
    """Paths of one run; nothing is made before ``create``."""

    path: Path

    @property
    def name(self) -> str:
        return self.path.name

    @property
    def recipe(self) -> Path:
        return self.path / "recipe.yaml"

    @property
    def versions(self) -> Path:
        return self.path / "versions.json"

    @property
    def metrics(self) -> Path:
        return self.path / "metrics.jsonl"

    @property
    def heldout(self) -> Path:
        return self.path / "heldout.jsonl"

    @property
    def events(self) -> Path:
        return self.path / "events.jsonl"

    @property
    def store(self) -> Path:
        return self.path / "store.sqlite"

    @property
    def tokens(self) -> Path:
        return self.path / "tokens"

    @property
    def trained(self) -> Path:
        return self.path / "trained"

    @property
    def trials(self) -> Path:
        return self.path / "trials"

    @property
    def logs(self) -> Path:
        return self.path / "logs"

    @property
    def policy(self) -> Path:
        return self.path / "policy"

    @property
    def tasks(self) -> Path:
        return self.path / "tasks"

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    def create(self) -> None:
        for folder in (self.path, self.trials, self.logs):
            folder.mkdir(parents=True, exist_ok=True)

    def trial(self, step: int, trial: str) -> Path:
        return self.trials / f"{step:04d}" / trial

    def last_checkpoint(self) -> int:
        """The step of the newest complete checkpoint; 0 without one."""
        tracker = self.checkpoints / "latest_checkpointed_iteration.txt"
        told = tracker.read_text().strip() if tracker.exists() else "0"
        if told.isdigit():
            return int(told)
        # A full disk leaves it empty. verl writes data.pt when the rest of a checkpoint is there.
        whole = [
            path.parent.name.removeprefix("global_step_") for path in self.checkpoints.glob("global_step_*/data.pt")
        ]
        return max((int(step) for step in whole if step.isdigit()), default=0)


def append_line(path: Path, record: Mapping[str, Any], *, new_line: bool = False) -> None:
    """Append one JSON line in one write, so that several processes can share a file.

    Args:
        new_line: begin one: the last may have been cut.

    Raises:
        OSError: when it cannot be written, or not wholly.
    """
    line = ("\n" if new_line else "") + json.dumps(record, separators=(",", ":"), default=_plain) + "\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    try:
        data = line.encode()
        if os.write(descriptor, data) < len(data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(path))
    finally:
        os.close(descriptor)


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Records of a JSON-lines file; a line that was cut, by a crash or a full disk, is left out."""
    if not path.exists():
        return
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            if line.endswith("\n"):
                try:
                    yield json.loads(line)
                except ValueError:
                    continue


def keep_steps_up_to(path: Path, step: int) -> None:
    """Drop records of steps after ``step``: a resumed run does them again."""
    kept = [record for record in read_lines(path) if int(record.get("step", 0)) <= step]
    partial = path.with_suffix(".partial")
    partial.write_text("".join(json.dumps(record, separators=(",", ":")) + "\n" for record in kept))
    partial.replace(path)


def _plain(value: Any) -> Any:
    if hasattr(value, "item"):
        return value.item()
    return str(value)

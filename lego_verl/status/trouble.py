"""Whether anybody works on a run, and why it ended."""

from __future__ import annotations

from pathlib import Path

from lego_verl.monitor.run_folder import RunFolder
from lego_verl.training_process import run_scratches


def is_alive(run: RunFolder) -> bool:
    """Whether a process of this machine trains it."""
    ours = run.path.resolve()
    return any(each.alive and each.run and Path(each.run) == ours for each in run_scratches())


def last_error(run: RunFolder) -> str:
    """Why it ended, where it failed."""
    path = run.path / "error.txt"
    try:
        return path.read_text(errors="replace").strip()
    except OSError:
        return ""

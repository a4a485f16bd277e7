"""Training runs as commands, and what is left of them."""

from __future__ import annotations

import contextlib
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil

from sandbox.orphans import sandbox_processes

MAIN = [sys.executable, "-m", "lego_verl.main"]


def steps_of(run: Path) -> list[dict[str, Any]]:
    path = run / "metrics.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def left_behind(run: str, *started: int) -> list[str]:
    """Sandboxes of a run, and processes of the commands that trained it, that are still there. Others do not count."""
    found = [f"sandbox {pid} of {name}" for pid, _, name in sandbox_processes() if name.startswith(run)]
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):  # gone, or another user's
            scratch = Path(process.environ().get("LEGO_VERL_SCRATCH", "")).name
            if scratch.startswith(tuple(f"lego_verl-{pid}-" for pid in started)):
                found.append(" ".join(process.cmdline())[:120])
    return found


def temporary_files() -> set[str]:
    return {path.name for path in Path(tempfile.gettempdir()).glob("*") if path.name.startswith(("ckpt_", "lego_verl"))}

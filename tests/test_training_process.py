"""Whatever ends a run, nothing that it started goes on."""

from __future__ import annotations

import os
import subprocess
import sys
import time
import uuid
from pathlib import Path

import psutil
import pytest

from lego_verl import training_process
from lego_verl.training_process import clear_dead_runs, end_processes

STUBBORN = "import signal,time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(600)"


def start(environment: dict[str, str], code: str = "import time; time.sleep(600)") -> psutil.Process:
    process = subprocess.Popen(
        [sys.executable, "-c", code], env={**os.environ, **environment}, start_new_session=True, text=True
    )
    time.sleep(0.3)
    return psutil.Process(process.pid)


def test_every_marked_process_is_ended_also_one_that_ignores_sigterm() -> None:
    mark = uuid.uuid4().hex
    marked = [start({"LEGO_VERL_PROCESS_TREE": mark}), start({"LEGO_VERL_PROCESS_TREE": mark}, STUBBORN)]
    other = start({"LEGO_VERL_PROCESS_TREE": "another"})
    try:
        assert end_processes(mark, patience=1.0) == 2
        assert not any(process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in marked)
        assert other.is_running()
    finally:
        other.kill()


def test_what_a_killed_run_left_is_cleared_and_a_living_run_is_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(training_process, "scratch_root", lambda: tmp_path)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    dead, alive = tmp_path / f"lego_verl-{gone.pid}-aaaa", tmp_path / f"lego_verl-{os.getpid()}-bbbb"
    for folder in (dead, alive):
        (folder / "ray").mkdir(parents=True)
    orphan = start({"LEGO_VERL_SCRATCH": str(dead)})
    assert clear_dead_runs() == 1
    assert not dead.exists()
    assert alive.exists()
    orphan.wait(timeout=5)

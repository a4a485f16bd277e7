"""Starts the training process, and ends all that it started: whatever happens, nothing is left.

Ray starts a dozen processes, some in sessions of their own. All of them inherit one environment variable, by
which they are found again, and one scratch folder, which is removed.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid
from pathlib import Path
from typing import Any

import psutil

from lego_verl.monitor.run_folder import RunFolder

_MARK = "LEGO_VERL_PROCESS_TREE"
_SCRATCH_PREFIX = "lego_verl-"
_ROOM = 1 << 20
"""Bytes under which a disk counts as full."""


def scratch_root() -> Path:
    """Where runs keep sockets: a short path, since a unix socket's may not pass 107 bytes."""
    return Path(tempfile.gettempdir())


class TrainingProcess:
    """``lego_verl.workers.train`` as a child. A context: leaving it ends the whole process tree."""

    def __init__(self, run: RunFolder, *, use_cpu: bool) -> None:
        self.log = run.logs / "training.log"
        self.error: str | None = None
        self._run, self._use_cpu = run, use_cpu
        self._mark = uuid.uuid4().hex
        self._scratch = scratch_root() / f"{_SCRATCH_PREFIX}{os.getpid()}-{self._mark[:8]}"
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> TrainingProcess:
        self._scratch.mkdir(mode=0o755)
        self._temporary.mkdir(mode=0o755)
        self._error_file.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            # A session of its own: a Ctrl-C of the terminal reaches this process alone, which ends the child.
            self._process = subprocess.Popen(
                [sys.executable, "-m", "lego_verl.workers.train", str(self._run.path), str(os.getpid())],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment(),
                start_new_session=True,
            )
        return self

    def __exit__(self, *_: Any) -> None:
        assert self._process is not None
        finished = self._process.poll()
        end_processes(self._mark)
        self._process.wait()
        shutil.rmtree(self._scratch, ignore_errors=True)
        if finished:
            told = self._error_file.read_text().strip() if self._error_file.exists() else ""
            self.error = told or self._unexplained(finished)

    def running(self) -> bool:
        assert self._process is not None
        return self._process.poll() is None

    def _unexplained(self, code: int) -> str:
        # On a full disk the child can leave neither its error nor its log.
        if shutil.disk_usage(self._run.path).free < _ROOM:
            return f"the disk that holds {self._run.path} is full; make room and start the run again: it goes on"
        return f"the training process ended with code {code}"

    @property
    def _temporary(self) -> Path:
        return self._scratch / "tmp"

    @property
    def _error_file(self) -> Path:
        return self._run.path / "error.txt"

    def _environment(self) -> dict[str, str]:
        environment = dict(os.environ)
        environment.update(
            {
                _MARK: self._mark,
                "LEGO_VERL_SCRATCH": str(self._scratch),
                # verl leaves a lock file here for every folder that it makes.
                "TMPDIR": str(self._temporary),
                "TOKENIZERS_PARALLELISM": "false",
                "RAY_USAGE_STATS_ENABLED": "0",
                "RAY_AUTH_MODE": "disabled",
                "RAY_DEDUP_LOGS": "0",
                "HYDRA_FULL_ERROR": "1",
                "PYTHONUNBUFFERED": "1",
            }
        )
        environment.setdefault("WANDB_MODE", "offline")
        if self._use_cpu:
            # The update is the only work that threads help, and nothing else works meanwhile.
            threads = str(min(4, psutil.cpu_count(logical=False) or 1))
            environment.update({"VERL_PLATFORM": "cpu", "OMP_NUM_THREADS": threads, "HF_HUB_OFFLINE": "1"})
        return environment


def die_with(parent: int) -> None:
    """Be terminated when the parent dies, also by ``kill -9`` (Linux: PR_SET_PDEATHSIG)."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(1, signal.SIGTERM)
    if os.getppid() != parent:
        raise SystemExit("the process that started this training is gone")


def end_processes(mark: str, *, patience: float = 5.0) -> int:
    """End every process that carries the mark: asked first, killed after ``patience`` seconds."""
    processes = [process for process in psutil.process_iter() if _mark_of(process) == mark]
    for process in processes:
        with contextlib.suppress(psutil.NoSuchProcess):
            process.terminate()
    _, alive = psutil.wait_procs(processes, timeout=patience)
    deadline = time.monotonic() + patience
    while alive and time.monotonic() < deadline:
        for process in alive:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        _, alive = psutil.wait_procs(alive, timeout=1.0)
    return len(processes)


def clear_dead_runs() -> int:
    """Remove what runs left whose first process was killed; return how many there were."""
    cleared = 0
    for folder in scratch_root().glob(f"{_SCRATCH_PREFIX}*-*"):
        owner = folder.name.removeprefix(_SCRATCH_PREFIX).split("-")[0]
        if not owner.isdigit() or psutil.pid_exists(int(owner)):
            continue
        for process in psutil.process_iter():
            if _environment_of(process).get("LEGO_VERL_SCRATCH") == str(folder):
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
        shutil.rmtree(folder, ignore_errors=True)
        cleared += 1
    return cleared


def _mark_of(process: psutil.Process) -> str | None:
    return _environment_of(process).get(_MARK)


def _environment_of(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:  # gone, or another user's
        return {}

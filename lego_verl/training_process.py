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
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from lego_verl.monitor.run_folder import RunFolder
from sandbox.orphans import identity, is_alive

_MARK = "LEGO_VERL_PROCESS_TREE"
_SCRATCH_PREFIX = "lego_verl-"
_OWNER = "owner"
"""A file that says whose a scratch folder is. No sandbox's folder in it can have this name."""
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
        (self._scratch / _OWNER).write_text(f"{identity(os.getpid())}\n{self._run.path.resolve()}\n")
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
        # Else both write into whatever folder the command was started in.
        environment.setdefault("WANDB_DIR", str(self._run.path.resolve()))
        environment.setdefault("TENSORBOARD_DIR", str(self._run.path.resolve() / "tensorboard"))
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


@dataclass(frozen=True)
class RunScratch:
    """The scratch folder of a run, who owns it, and the processes that use it."""

    folder: Path
    pid: int
    """Of the run's first process."""
    alive: bool
    """Whether that process still runs."""
    run: str
    """The run's folder; only its name, or nothing, where that is all that can be found out."""
    processes: tuple[psutil.Process, ...]


def run_scratches() -> list[RunScratch]:
    """The scratch folders of all runs, and those that only processes still speak of."""
    users: dict[Path, list[psutil.Process]] = defaultdict(list)
    for process in psutil.process_iter():
        if scratch := _environment_of(process).get("LEGO_VERL_SCRATCH"):
            users[Path(scratch)].append(process)
    ourselves = {os.getpid(), *(parent.pid for parent in psutil.Process().parents())}
    found = []
    for folder in sorted({*scratch_root().glob(f"{_SCRATCH_PREFIX}*-*"), *users}):
        pid = folder.name.removeprefix(_SCRATCH_PREFIX).split("-")[0]
        if folder.parent != scratch_root() or not folder.name.startswith(_SCRATCH_PREFIX) or not pid.isdigit():
            continue
        alive, run = _owner_of(folder, int(pid))
        processes = tuple(process for process in users[folder] if process.pid not in ourselves)
        found.append(RunScratch(folder, int(pid), alive, run, processes))
    return found


def clear_dead_runs() -> int:
    """Remove what runs left whose first process was killed; return how many there were."""
    dead = [each for each in run_scratches() if not each.alive]
    for each in dead:
        for process in each.processes:
            with contextlib.suppress(psutil.Error):  # gone, or another user's
                process.kill()
        shutil.rmtree(each.folder, ignore_errors=True)
    return len(dead)


def _owner_of(folder: Path, pid: int) -> tuple[bool, str]:
    """Whether the owner of a scratch folder is alive, and its run."""
    try:
        name, run = (folder / _OWNER).read_text().splitlines()
        return is_alive(name), run
    except (OSError, ValueError):  # only just made, or of another version: the sandboxes' folders have the run's name
        homes = sorted(folder.glob(f"*/{_OWNER}"))
        return psutil.pid_exists(pid), homes[0].parent.name if homes else ""


def _mark_of(process: psutil.Process) -> str | None:
    return _environment_of(process).get(_MARK)


def _environment_of(process: psutil.Process) -> dict[str, str]:
    try:
        return process.environ()
    except psutil.Error:  # gone, or another user's
        return {}

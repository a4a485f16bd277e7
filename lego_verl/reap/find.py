"""What dead runs left on this machine and in its daemons: found, and removed one by one."""

from __future__ import annotations

import asyncio
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import psutil

from lego_verl.monitor.run_folder import RunFolder
from lego_verl.proof.read import NoRun
from lego_verl.training_process import RunScratch, run_scratches
from sandbox.choose import NAMES, choose_backend
from sandbox.leftover import Leftover, ListsLeftovers
from sandbox.local import LocalBackend
from sandbox.sandbox import Backend, SandboxError, SandboxUnavailable

_PATIENCE = 10.0
"""Seconds in which what was removed must be gone."""
_OF_A_RUN = ("", "-demonstrations")
"""A run's sandboxes are labelled with its name and one of these."""


@dataclass(frozen=True)
class WantedRun:
    """The run whose things are asked for."""

    name: str
    folder: Path | None = None
    """None when there is no such folder (any more)."""

    def owns(self, run: str) -> bool:
        """Whether something that belongs to ``run`` (a folder, or only a name) belongs to it."""
        if run.startswith("/") and self.folder is not None:
            return Path(run) == self.folder
        return Path(run).name == self.name

    @property
    def labels(self) -> list[str]:
        return [self.name + ending for ending in _OF_A_RUN]


@dataclass
class Found:
    """What there is."""

    left: list[Leftover] = field(default_factory=list)
    living: list[RunScratch] = field(default_factory=list)
    """Runs that are left alone."""
    unseen: list[str] = field(default_factory=list)
    """Backends that answered and then failed, and why: one line each."""
    unlisted: list[Backend] = field(default_factory=list)
    """Those that can remove what all dead runs left, and cannot say before what that is."""


def wanted_run(given: str) -> WantedRun:
    """A run by its folder, its name under ``runs``, or the name that its things are labelled with.

    Raises:
        NoRun: for the empty name.
    """
    for folder in (Path(given), Path("runs") / given):
        if given and (RunFolder(folder).trials.is_dir() or RunFolder(folder).recipe.is_file()):
            return WantedRun(folder.resolve().name, folder.resolve())
    if not Path(given).name:
        raise NoRun(f"{given!r} is not the name of a run")
    return WantedRun(Path(given).name)


async def open_backends() -> tuple[list[Backend], list[str]]:
    """Every backend that answers here, and a line for each that does not."""
    backends: list[Backend] = [LocalBackend()]  # its leftovers can be removed also where it cannot start anything
    unseen = []
    for name in NAMES:
        if name not in ("auto", "local"):
            try:
                backends.append(await choose_backend(name))
            except SandboxUnavailable as error:
                unseen.append(f"{name}: {error}")
    return backends, unseen


async def find_left(backends: Sequence[Backend], wanted: WantedRun | None) -> Found:
    """What dead runs left, all or one: processes first, since they may hold what else there is."""
    found = Found()
    for scratch in run_scratches():
        if wanted is not None and not wanted.owns(scratch.run):
            continue
        if scratch.alive:
            found.living.append(scratch)
            continue
        for process in scratch.processes:
            found.left.append(Leftover("process", _named(process), scratch.run, partial(_kill, process)))
        if scratch.folder.exists():
            remove = partial(asyncio.to_thread, _remove_folder, scratch.folder)
            found.left.append(Leftover("folder", str(scratch.folder), scratch.run, remove))
    for backend in backends:
        if not isinstance(backend, ListsLeftovers):
            found.unlisted.append(backend)
            continue
        try:
            for run in [None] if wanted is None else wanted.labels:
                found.left += [each for each in await backend.left(run) if each not in found.left]
        except SandboxError as error:
            found.unseen.append(f"{backend.name}: {error}")
    found.left.sort(key=lambda each: (each.kind != "process", each.run))
    return found


async def remove_left(backends: Sequence[Backend], wanted: WantedRun | None, found: Found) -> dict[Leftover, str]:
    """Remove what was found, and what comes to light by that. Returns what is still there, and why.

    A process that is killed takes a moment to go, and one that starts others may have done so meanwhile: what is
    there is looked at again until nothing is.
    """
    deadline = time.monotonic() + _PATIENCE
    refused: dict[Leftover, str] = {}
    left = found.left
    while True:
        for each in left:
            try:
                if each not in refused:
                    await each.remove()
            except PermissionError as error:
                refused[each] = error.strerror or str(error)
            except OSError:  # a folder into which a process that is only just dying still writes
                continue
        left = (await find_left(backends, wanted)).left
        found.left += [each for each in left if each not in found.left]
        if all(each in refused for each in left) or time.monotonic() > deadline:
            return {each: refused.get(each, "it is still there") for each in left}
        await asyncio.sleep(0.1)


def _named(process: psutil.Process) -> str:
    try:
        words = process.cmdline()
    except psutil.Error:
        words = []
    return f"{process.pid}, {' '.join(words)[:60] or 'which has ended'}"


async def _kill(process: psutil.Process) -> None:
    try:
        process.kill()  # which looks whether it is still the same one
    except psutil.NoSuchProcess:
        return
    except psutil.AccessDenied as error:
        raise PermissionError(f"process {process.pid} is another user's") from error


def _remove_folder(folder: Path) -> None:
    if folder.exists():
        shutil.rmtree(folder)

"""The one folder of the host where what belongs to a run's sandboxes may stand: its links' sockets.

A sandbox itself keeps nothing on the host. A run's folder carries the pid of the process that made
it, so that what a killed run left can be told from what a living one uses.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
import shutil
import time
from pathlib import Path

from sandbox.orphans import identity, is_alive

_OWNER = "owner"
_NEW_SECONDS = 60.0


class Scratch:
    """``root/<run>/<trial>.<process>/``; a run's folder is dead when the processes that made it are.

    Runs of one name may be under way at once, of other folders or other people, with trials of the same names. Each
    process has folders of its own, or a harness would find the session of another run behind its link.
    """

    def __init__(self, root: Path | None = None, *, group: int | None = None) -> None:
        """``group`` may walk through the folders, and nobody else but us: the user that sandboxes run as.

        ``root`` defaults to a short path, because a unix socket's path has at most 107 bytes.
        """
        self.root = root or Path(f"/tmp/lego-{os.geteuid()}")
        self._group = group

    def folder(self, run: str, trial: str) -> Path:
        """A private folder of a trial, made if need be; no other process is given the same."""
        self._make(self.root)
        if self.root.lstat().st_uid != os.geteuid() or self.root.is_symlink():
            raise PermissionError(f"{self.root} belongs to somebody else; give the sandbox another scratch folder")
        for attempts_left in (2, 1, 0):
            try:
                return self._folder(self.root / _name(run), f"{_name(trial, 24)}.{os.getpid()}")
            except FileNotFoundError:  # a reaper took the folder of this run's dead predecessor from under us
                if not attempts_left:
                    raise
        raise AssertionError

    def _folder(self, home: Path, trial: str) -> Path:
        self._make(home)
        (home / _OWNER).mkdir(exist_ok=True)
        (home / _OWNER / identity(os.getpid())).touch()
        self._make(home / trial)
        return home / trial

    def _make(self, folder: Path) -> None:
        try:
            folder.mkdir(mode=0o700, parents=True)
        except FileExistsError:
            return
        if self._group is not None:
            os.chown(folder, -1, self._group)
            folder.chmod(0o710)

    def dead(self, run: str | None = None) -> list[Path]:
        """The folders of runs, of one name or of any, that no living process uses."""
        return [home for home in self._homes() if (run is None or home.name == _name(run)) and not _in_use(home)]

    def reap(self, run: str | None = None) -> int:
        """Remove the folders of one run, or of every run whose processes are gone. Returns how many trials'."""
        removed = 0
        for home in self.dead() if run is None else [path for path in self._homes() if path.name == _name(run)]:
            with contextlib.suppress(FileNotFoundError):
                removed += trials_in(home)
                shutil.rmtree(home, ignore_errors=True)
        return removed

    def _homes(self) -> list[Path]:
        with contextlib.suppress(FileNotFoundError):
            return [path for path in self.root.iterdir() if path.is_dir() and not path.is_symlink()]
        return []


def trials_in(home: Path) -> int:
    """How many trials have something in a run's folder."""
    return sum(1 for entry in home.iterdir() if entry.name != _OWNER)


def remove_dead(home: Path) -> None:
    """Remove a run's folder, unless a living process has come to use it. ``OSError`` when it cannot be removed."""
    if not _in_use(home):
        with contextlib.suppress(FileNotFoundError):
            shutil.rmtree(home)


def _name(text: str, most: int = 32) -> str:
    """A folder name for a run or trial, short enough for a socket's path."""
    clean = re.sub(r"[^A-Za-z0-9._-]", "_", text)
    if clean in ("", ".", "..", _OWNER) or clean != text or len(clean) > most:
        return f"{clean[: most - 12].lstrip('.') or 'x'}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"
    return clean


def _in_use(home: Path) -> bool:
    """Whether any of the processes that used the run's folder still runs, or one is only just making it."""
    try:
        owners = list((home / _OWNER).iterdir())
        return any(is_alive(owner.name) for owner in owners) or (not owners and _is_new(home))
    except FileNotFoundError:
        return _is_new(home)


def _is_new(home: Path) -> bool:
    try:
        return time.time() - home.stat().st_mtime < _NEW_SECONDS
    except FileNotFoundError:
        return False

"""The one folder of the host where what belongs to a run's sandboxes may stand: its links' sockets.

A sandbox itself keeps nothing on the host. A run's folder carries the pid of the process that made
it, so that what a killed run left can be told from what a living one uses.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path

_OWNER = "owner"


class Scratch:
    """``root/<run>/<trial>/``; a run's folder is dead when the process that made it is."""

    def __init__(self, root: Path | None = None, *, group: int | None = None) -> None:
        """``group`` may walk through the folders, and nobody else but us: the user that sandboxes run as.

        ``root`` defaults to a short path, because a unix socket's path has at most 107 bytes.
        """
        self.root = root or Path(f"/tmp/lego-{os.geteuid()}")
        self._group = group

    def folder(self, run: str, trial: str) -> Path:
        """A private folder of a trial, made if need be."""
        self._make(self.root)
        if self.root.lstat().st_uid != os.geteuid() or self.root.is_symlink():
            raise PermissionError(f"{self.root} belongs to somebody else; give the sandbox another scratch folder")
        home = self.root / _name(run)
        self._make(home)
        owner = home / _OWNER / _identity(os.getpid())
        if not owner.exists():
            owner.parent.mkdir(exist_ok=True)
            owner.touch()
        folder = home / _name(trial)
        self._make(folder)
        return folder

    def _make(self, folder: Path) -> None:
        try:
            folder.mkdir(mode=0o700, parents=True)
        except FileExistsError:
            return
        if self._group is not None:
            os.chown(folder, -1, self._group)
            folder.chmod(0o710)

    def reap(self, run: str | None = None) -> int:
        """Remove the folders of one run, or of every run whose processes are gone. Returns how many trials'."""
        removed = 0
        with contextlib.suppress(FileNotFoundError):
            for home in [path for path in self.root.iterdir() if path.is_dir() and not path.is_symlink()]:
                if home.name == _name(run) if run is not None else not _alive(home):
                    removed += sum(1 for entry in home.iterdir() if entry.name != _OWNER)
                    shutil.rmtree(home, ignore_errors=True)
        return removed


def _name(text: str) -> str:
    """A folder name for a run or trial, short enough for a socket's path."""
    clean = re.sub(r"[^A-Za-z0-9._-]", "_", text)
    if clean in ("", ".", "..", _OWNER) or clean != text or len(clean) > 32:
        import hashlib

        return f"{clean[:20].lstrip('.') or 'x'}-{hashlib.sha256(text.encode()).hexdigest()[:10]}"
    return clean


def _identity(pid: int) -> str:
    """A process, told apart from a later one with the same number by its start time."""
    stat = Path(f"/proc/{pid}/stat").read_text()
    return f"{pid}-{stat.rpartition(')')[2].split()[19]}"


def _alive(home: Path) -> bool:
    """Whether any of the processes that used the run's folder still runs."""
    with contextlib.suppress(FileNotFoundError):
        for owner in (home / _OWNER).iterdir():
            with contextlib.suppress(OSError, ValueError):
                if _identity(int(owner.name.split("-")[0])) == owner.name:
                    return True
    return False

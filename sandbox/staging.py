"""Folders that the sandbox's user cannot walk to are copied, once, to where it can.

As root, sandboxes run as another user. bwrap resolves a mount's source as that user, also when it is given by
descriptor, so a folder under ``/root`` could not be mounted.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from sandbox.sandbox import Mount, SandboxError


class Staging:
    """Copies by content, each made once in the life of a backend.

    Args:
        uid: the user that sandboxes run as; None when it is this process's own, which reaches what it can mount.
    """

    def __init__(self, uid: int | None) -> None:
        self._uid = uid
        self._copies: dict[Path, Path] = {}

    def reachable(self, mounts: Sequence[Mount], home: Callable[[], Path]) -> tuple[Mount, ...]:
        """The mounts, with a copy under ``home()`` in place of a source that the user cannot walk to.

        Raises:
            SandboxError: when a source cannot be copied.
        """
        if self._uid is None:
            return tuple(mounts)
        return tuple(
            mount if not mount.source.exists() or _walkable(mount.source) else self._copied(mount, home)
            for mount in mounts
        )

    def _copied(self, mount: Mount, home: Callable[[], Path]) -> Mount:
        source = mount.source.resolve()
        copy = self._copies.get(source)
        if copy is None or not copy.exists():
            try:
                copy = _copy(source, home())
            except OSError as error:
                raise SandboxError(f"{source} cannot be mounted at {mount.target}: {error.strerror}") from error
            self._copies[source] = copy
        return replace(mount, source=copy)


def _walkable(path: Path) -> bool:
    """Whether every folder above lets everybody through, and the path itself can be read."""
    path = path.resolve()
    last = stat.S_IROTH | (stat.S_IXOTH if path.is_dir() else 0)
    through = all(parent.stat().st_mode & stat.S_IXOTH for parent in path.parents)
    return through and path.stat().st_mode & last == last


def _copy(source: Path, home: Path) -> Path:
    """A copy that everybody can read, complete under its name or not there."""
    target = home / f"mount-{hashlib.sha256(str(source).encode()).hexdigest()[:16]}-{os.getpid()}"
    partial = Path(tempfile.mkdtemp(prefix="partial-", dir=home))
    try:
        inner = partial / "copy"
        if source.is_dir():
            shutil.copytree(source, inner, symlinks=True)
        else:
            shutil.copy2(source, inner)
        for path in (inner, *inner.rglob("*")):
            if not path.is_symlink():
                mode = path.stat().st_mode
                path.chmod(mode | stat.S_IROTH | (stat.S_IXOTH if path.is_dir() or mode & stat.S_IXUSR else 0))
        inner.rename(target)
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return target

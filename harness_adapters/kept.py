"""The runtimes that a cache keeps: how large they are, when they were last used, and how one is removed safely."""

from __future__ import annotations

import contextlib
import fcntl
import json
import shutil
from dataclasses import dataclass
from pathlib import Path

from harness_adapters.runtime import lock_of, use_of


@dataclass(frozen=True)
class KeptRuntime:
    """A runtime in the cache."""

    folder: Path
    name: str
    used: float
    """Unix seconds at which it was last asked for."""
    size: int
    """Bytes on the disk."""


def kept_runtimes(cache: Path) -> list[KeptRuntime]:
    """All of them, by name. A folder without a ``runtime.json`` is not ours."""
    found = []
    for description in sorted((cache / "runtimes").glob("[!.]*/runtime.json")):
        folder = description.parent
        try:
            name = str(json.loads(description.read_text())["name"])
            used = description.stat().st_mtime
        except (OSError, ValueError, LookupError, TypeError):
            continue
        found.append(KeptRuntime(folder, name, used, size_of(folder)))
    return found


def half_built(cache: Path) -> list[Path]:
    """What builders left that were killed, or removers: nobody holds their runtimes' locks."""
    return [part for part in sorted((cache / "runtimes").glob(".*-*")) if part.is_dir() and not in_use(_owner(part))]


def in_use(folder: Path) -> bool:
    """Whether a process on this machine uses or builds the runtime."""
    with contextlib.ExitStack() as held:
        return not all(_take(held, lock) for lock in (lock_of(folder), use_of(folder)) if lock.exists())


def remove_runtime(folder: Path) -> bool:
    """Remove a runtime and return True; or return False when somebody uses or builds it.

    Raises:
        OSError: when it may not be removed.
    """
    with contextlib.ExitStack() as held:
        if not all(_take(held, lock) for lock in (lock_of(folder), use_of(folder))):
            return False
        # Out of sight first: what is half removed must not be taken for a runtime.
        dying = folder.with_name(f".{folder.name}-removed")
        folder.rename(dying)
        shutil.rmtree(dying)
    return True


def _take(held: contextlib.ExitStack, lock: Path) -> bool:
    """Hold a lock alone for as long as ``held`` lasts; False when somebody else has it."""
    if not lock.exists():
        lock.touch()
    file = held.enter_context(lock.open("rb"))
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def remove_unfinished(part: Path) -> None:
    """Remove what ``half_built`` found."""
    shutil.rmtree(part, ignore_errors=True)


def size_of(folder: Path) -> int:
    """Bytes on the disk below a folder; a file with two names counts once."""
    found = {(status.st_dev, status.st_ino): status.st_blocks * 512 for status in map(Path.lstat, folder.rglob("*"))}
    return sum(found.values())


def _owner(part: Path) -> Path:
    """The runtime that a builder's folder (``.NAME-DIGEST-RANDOM``) was to become."""
    return part.with_name(part.name.removeprefix(".").rpartition("-")[0])

"""Whether two names that an agent used mean one file: ``/repo/src/a.py``, ``src/a.py`` and ``src/*.py`` may."""

from __future__ import annotations

from collections.abc import Iterable
from fnmatch import fnmatchcase


def same_file(one: str, other: str) -> bool:
    """Whether the shorter name is the end of the longer, folder by folder; either may hold wildcards."""
    ours, theirs = _parts(one), _parts(other)
    if not ours or not theirs:
        return False
    return all(
        a == b or fnmatchcase(a, b) or fnmatchcase(b, a) for a, b in zip(reversed(ours), reversed(theirs), strict=False)
    )


def among(path: str, others: Iterable[str]) -> bool:
    return any(same_file(path, other) for other in others)


def is_file_name(path: str) -> bool:
    """Whether a name looks like a file's: its last part has an ending, or is one of those that have none."""
    last = path.rstrip("/").rsplit("/", 1)[-1]
    return not path.endswith("/") and ("." in last.strip(".") or last in ("Makefile", "Dockerfile", "LICENSE"))


def _parts(path: str) -> list[str]:
    return [part for part in path.split("/") if part not in ("", ".")]

"""A library of cheating agents: one idea a file, an executable script that is run in the agent's place.

A cheater runs in the agent's sandbox, in the task's workdir, without arguments. Its first comment says the idea. A
line ``# told: tampered`` says that the attack leaves something by which it can be known. What a cheater should not
have been able to reach it prints, as a line ``REACHED what``.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from lego_verl.tasks.task import TaskError

LIBRARY = Path(__file__).parent
_TOLD = "told: tampered"


@dataclass(frozen=True)
class Cheater:
    name: str
    idea: str
    path: Path
    told: bool = False
    """Whether its attack can be known for one where a task asks questions; else its reward is 0 and no more is said."""

    @property
    def script(self) -> bytes:
        return self.path.read_bytes()


def load_cheaters(own: Path | None = None) -> list[Cheater]:
    """The library's cheaters and those of the folder ``own``, by name; an own one replaces one of the same name.

    Raises:
        TaskError: for a folder that is not there or holds no executable file, and for a file without a first comment.
    """
    found = {each.name: each for each in _read(LIBRARY)}
    if own is not None:
        if not own.is_dir():
            raise TaskError(f"cheaters={own}: there is no such folder")
        mine = _read(own)
        if not mine:
            raise TaskError(f"cheaters={own}: it holds no executable file: a cheater is a script (chmod +x)")
        found |= {each.name: each for each in mine}
    return [found[name] for name in sorted(found)]


def _read(folder: Path) -> list[Cheater]:
    files = sorted(path for path in folder.iterdir() if path.is_file() and _is_script(path))
    return [_cheater(path) for path in files]


def _is_script(path: Path) -> bool:
    # An installed package may have lost the bit.
    return path.suffix == ".sh" or (os.access(path, os.X_OK) and path.suffix != ".pyc")


def _cheater(path: Path) -> Cheater:
    said: list[str] = []
    for line in path.read_text(errors="replace").splitlines():
        if not line.startswith("#"):
            break
        if not line.startswith("#!"):
            said.append(line.lstrip("# ").strip())
    told = _TOLD in said
    idea = " ".join(line for line in said if line and line != _TOLD)
    if not idea:
        raise TaskError(f"the cheater {path} does not say its idea: write it as a comment in its first lines")
    return Cheater(path.stem, idea, path, told)

"""The part of a Dockerfile that needs no container engine: FROM, WORKDIR, ENV, and COPY or ADD of local files.

Everything else, RUN above all, asks for a real image build and is refused by name.
"""

from __future__ import annotations

import json
import posixpath
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from sandbox.sandbox import ImageMissing

_IGNORED = frozenset({"FROM", "CMD", "ENTRYPOINT", "LABEL", "EXPOSE", "MAINTAINER"})
"""What changes nothing in the file tree: the base image (the host's own tools stand in for it) and defaults
for a container's main process, which a sandbox does not have."""
_ARCHIVE = re.compile(r"\.(tar|tar\.gz|tgz|tar\.bz2|tar\.xz)$")


@dataclass(frozen=True)
class Copy:
    """One source of a COPY or ADD, and where it goes."""

    source: Path
    target: str
    """Absolute path inside: of the file itself, or of the folder that gets the source's contents."""
    archive: bool = False
    """The source is a tar file whose contents go to ``target``."""
    mode: int | None = None


@dataclass
class Recipe:
    """What a Dockerfile of this kind says."""

    copies: list[Copy] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)


def read_dockerfile(folder: Path) -> Recipe:
    """The recipe of ``folder/Dockerfile``. ``ImageMissing`` names the line that this backend cannot do."""
    path = folder / "Dockerfile"
    try:
        text = path.read_text()
    except FileNotFoundError:
        raise ImageMissing(f"{path} does not exist: an environment folder has a Dockerfile") from None
    if (folder / ".dockerignore").exists():
        raise _refused(path, 0, ".dockerignore")
    recipe, workdir, stages = Recipe(), "/", 0
    for number, instruction, rest in _instructions(text):
        if instruction == "FROM":
            stages += 1
            if stages > 1:
                raise _refused(path, number, "a second FROM (a multi-stage build)")
        elif instruction == "WORKDIR":
            workdir = posixpath.normpath(posixpath.join(workdir, _expand(rest, recipe.env)))
            recipe.folders.append(workdir)
        elif instruction == "ENV":
            recipe.env.update(_env(path, number, rest, recipe.env))
        elif instruction in ("COPY", "ADD"):
            recipe.copies.extend(_copies(path, number, instruction, rest, workdir, recipe.env))
        elif instruction not in _IGNORED:
            raise _refused(path, number, instruction)
    if not stages:
        raise ImageMissing(f"{path} has no FROM: it is not a Dockerfile")
    return recipe


def _refused(path: Path, number: int, what: str) -> ImageMissing:
    where = f"{path}:{number}" if number else str(path.parent)
    return ImageMissing(f"{where}: the local sandbox cannot do {what}; use sandbox=docker for this task")


def _instructions(text: str) -> Iterator[tuple[int, str, str]]:
    """Line number, instruction in capitals, and the rest, with continued lines joined."""
    whole, began = "", 0
    for number, raw in enumerate(text.splitlines(), start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        began = began or number
        if line.endswith("\\"):
            whole += line[:-1] + " "
            continue
        instruction, _, rest = (whole + line).strip().partition(" ")
        yield began, instruction.upper(), rest.strip()
        whole, began = "", 0
    if whole.strip():
        instruction, _, rest = whole.strip().partition(" ")
        yield began, instruction.upper(), rest.strip()


def _expand(text: str, env: dict[str, str]) -> str:
    return re.sub(r"\$(?:\{(\w+)\}|(\w+))", lambda m: env.get(m[1] or m[2], ""), text)


def _env(path: Path, number: int, rest: str, env: dict[str, str]) -> dict[str, str]:
    words = shlex.split(rest)
    if words and "=" not in words[0]:  # the old form: ENV NAME the rest of the line
        name, _, value = rest.partition(" ")
        return {name: _expand(value.strip(), env)}
    pairs = [word.partition("=") for word in words]
    if not pairs or not all(name and equals for name, equals, _ in pairs):
        raise _refused(path, number, f"ENV {rest}")
    return {name: _expand(value, env) for name, _, value in pairs}


def _copies(path: Path, number: int, instruction: str, rest: str, workdir: str, env: dict[str, str]) -> Iterator[Copy]:
    mode: int | None = None
    while rest.startswith("--"):
        flag, _, rest = rest.partition(" ")
        rest = rest.strip()
        name, _, value = flag[2:].partition("=")
        if name == "chmod" and re.fullmatch(r"[0-7]{3,4}", value):
            mode = int(value, 8)
        elif name not in ("chown", "link"):  # there is only one owner inside
            raise _refused(path, number, f"{instruction} {flag}")
    words = json.loads(rest) if rest.startswith("[") else shlex.split(rest)
    words = [_expand(word, env) for word in words]
    if len(words) < 2:
        raise _refused(path, number, f"{instruction} {rest} (it needs a source and a destination)")
    *sources, destination = words
    if any(re.match(r"(https?|git|ssh)://|<<", source) for source in sources):
        raise _refused(path, number, f"{instruction} of something that is not a file of the folder")
    target = posixpath.normpath(posixpath.join(workdir, destination))
    found = [match for source in sources for match in _find(path, number, source)]
    is_folder = destination.endswith(("/", ".")) or len(found) > 1
    for source in found:
        if source.is_dir():
            yield Copy(source, target, mode=mode)
        elif instruction == "ADD" and _ARCHIVE.search(source.name):
            yield Copy(source, target, archive=True)
        else:
            yield Copy(source, posixpath.join(target, source.name) if is_folder else target, mode=mode)


def _find(path: Path, number: int, pattern: str) -> list[Path]:
    folder = path.parent
    pattern = posixpath.normpath(pattern.lstrip("/") or ".")
    if pattern.split("/")[0] == "..":
        raise ImageMissing(f"{path}:{number}: {pattern} is outside the environment folder")
    found = sorted(folder.glob(pattern)) if any(c in pattern for c in "*?[") else [folder / pattern]
    if not found or not found[0].exists():
        raise ImageMissing(f"{path}:{number}: {folder / pattern} does not exist")
    return found

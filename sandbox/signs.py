"""What a patch says of itself before anything of it has run: parts that no grader may take, and signs of an attack.

Dropped is what steers a test runner and is no part of a mended program: ``conftest.py``, pytest's settings,
modules that Python imports by itself, modules that stand in a runner's place, compiled files, links that lead out of
the repository. The reference patch of a task is filtered likewise, so a task that needs such a file is found out when
it is checked. A *sign* is what an honest patch does not contain; what follows from it is for ``grader``.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from dataclasses import dataclass

_DROPPED = frozenset({b"conftest.py", b"pytest.ini", b".pytest.ini", b"pytest.toml", b".pytest.toml"})
_MODULE = rb"(/__init__)?\.(py|py[co]|[^/]*so)$"
_STARTUP = re.compile(rb"(^|/)(site|user)customize" + _MODULE)
"""What Python runs when it starts; and so it does a ``.pth`` file's lines that begin with ``import``."""
_IMPORTS = re.compile(rb"^\+import[ \t]", re.MULTILINE)
_RUNNERS = re.compile(
    rb"^((src|lib)/)?(pytest|_pytest|pluggy|unittest|doctest|nose)" + _MODULE + rb"|"
    rb"^tests?/(pytest|_pytest|pluggy|unittest|doctest|nose)\.py[co]?$"
)
_COMPILED = re.compile(rb"\.py[co]$")
_SETTINGS = frozenset({b"tox.ini", b"setup.cfg", b"pyproject.toml"})
_OF_PYTEST = re.compile(rb"pytest|addopts|python_files|python_classes|python_functions|testpaths")
_OPTION = re.compile(rb"^\+\s*[\"']?-[\w-]", re.MULTILINE)
"""An option by itself: one more line of a list that began further up."""
_SPELLED = re.compile(rb"^\+.*\\[uUx][0-9a-fA-F]", re.MULTILINE)
"""A letter by its number, which TOML reads as the letter."""
_LINK = re.compile(rb"^(new file mode|new mode|index \S+) 120000$", re.MULTILINE)
_ENTRY_POINTS = re.compile(rb"\.(egg|dist)-info/entry_points\.txt$")
_CHANNEL = re.compile(rb"^\+.*(/logs/verifier|/tests/(test\.sh|questions\.))", re.MULTILINE)
_CHANNEL_BEFORE = re.compile(rb"^[ -].*(/logs/verifier|/tests/(test\.sh|questions\.))", re.MULTILINE)
_HEADER = re.compile(rb"^diff --git ", re.MULTILINE)
_FROM = re.compile(rb"^(?:rename|copy) from (.+)$", re.MULTILINE)
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)
_ESCAPED = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


@dataclass(frozen=True)
class Screened:
    """A patch without what a grader does not take."""

    patch: bytes
    dropped: tuple[str, ...]
    """Paths of parts that were left out."""
    signs: tuple[str, ...]
    """Why the patch looks like an attack; empty for honest ones."""
    names_channel: bool
    """It speaks of where rewards are written: a verdict that tested code could write is worth nothing."""


def screen(patch: bytes) -> Screened:
    """Take from a git patch what steers test runners. A patch in another form is left whole."""
    kept: list[bytes] = []
    dropped: list[str] = []
    signs: list[str] = []
    for path, part in _parts(patch):
        why = _attack(path, part)
        if why:
            signs.append(f"{_shown(path)}: {why}")
        if why or _steers(path, part):
            dropped.append(_shown(path))
        else:
            kept.append(part)
    # A repository that speaks of such files itself may go on doing so.
    channel = None if _CHANNEL_BEFORE.search(patch) else _CHANNEL.search(patch)
    if channel is not None:
        signs.append(f"the patch speaks of the grader's own files: {_shown(channel[0][1:].strip())}")
    return Screened(b"".join(kept), tuple(dropped), tuple(signs), channel is not None)


def _attack(path: bytes, part: bytes) -> str:
    head, _, hunks = part.partition(b"\n@@")
    is_new = b"\nnew file mode " in head
    startup = _STARTUP.search(path) or (path.endswith(b".pth") and _IMPORTS.search(part))
    if startup and is_new:
        return "Python would run it at every start"
    if _RUNNERS.search(path) and is_new:
        return "it would stand in the place of a test runner"
    if _ENTRY_POINTS.search(path) and b"pytest11" in part:
        return "it registers a plug-in of pytest"
    if _LINK.search(head) and _leads_out(path, hunks):
        return "it links to something outside of the repository"
    return ""


def _leads_out(path: bytes, hunks: bytes) -> bool:
    target = b"\n".join(line[1:] for line in hunks.split(b"\n") if line.startswith(b"+"))
    inside = posixpath.normpath(posixpath.join(posixpath.dirname(path), target))
    return target.startswith(b"/") or inside == b".." or inside.startswith(b"../")


def _steers(path: bytes, part: bytes) -> bool:
    name = path.rpartition(b"/")[2]
    if name in _DROPPED or _COMPILED.search(name):
        return True
    return name in _SETTINGS and any(each.search(part) for each in (_OF_PYTEST, _OPTION, _SPELLED))


def _parts(patch: bytes) -> Iterator[tuple[bytes, bytes]]:
    """The parts of a patch and whose they are; what stands before the first header belongs to no path.

    Only a header can begin with ``diff --git``: lines of hunks and of binary data cannot.
    """
    starts = [match.start() for match in _HEADER.finditer(patch)]
    ends = [*starts, len(patch)]
    if ends[0]:
        yield b"", patch[: ends[0]]
    for start, end in zip(starts, ends[1:], strict=True):
        part = patch[start:end]
        yield path_of(part.partition(b"\n")[0]), part


def paths_of(patch: bytes) -> set[bytes]:
    """Every path that a git patch touches; of a rename or a copy both."""
    found = {path for path, _ in _parts(patch) if path}
    for line in _FROM.findall(patch):
        found.add(_unquoted(line) if line.startswith(b'"') else line)
    return found


def path_of(header: bytes) -> bytes:
    """The path in a line ``diff --git a/PATH b/PATH``; of a rename the second."""
    rest = header.removeprefix(b"diff --git ")
    if rest.endswith(b'"'):
        quoted = re.search(rb'"((?:[^"\\]|\\.)*)"$', rest)
        if quoted is not None:
            return _unquoted(quoted[0]).removeprefix(b"b/")
    half = rest[(len(rest) + 1) // 2 :]
    if rest[: len(half)].removeprefix(b"a/") == half.removeprefix(b"b/"):
        return half.removeprefix(b"b/")
    return rest.rpartition(b" b/")[2]


def _unquoted(text: bytes) -> bytes:
    return _ESCAPE.sub(_unescaped, text[1:-1])


def _unescaped(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes([int(code, 8) & 0xFF]) if len(code) == 3 else _ESCAPED.get(code, code)


def _shown(text: bytes) -> str:
    """For a log and a terminal: nothing in it is more than a character."""
    return "".join(each if each.isprintable() else "?" for each in text[:120].decode(errors="replace"))

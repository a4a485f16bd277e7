"""A patch with one part of it taken back: how tests are asked whether they guard every part.

A part is a run of changed lines with no unchanged line between them; smaller than git's hunks, which put neighbours
together. New, deleted, renamed and binary files are one part each.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_FILE = re.compile(rb"^(?=diff --git )", re.MULTILINE)
_HUNK = re.compile(rb"^@@ -(\d+)(?:,(\d+))? \+\d+(?:,(\d+))? @@(.*)$")
_WHOLE = re.compile(
    rb"^(new file mode|deleted file mode|rename |copy |old mode|GIT binary patch|Binary files)", re.MULTILINE
)
_PROSE = re.compile(rb"(^|/)(docs?|changelog|changes|news)(/|\.|$)|\.(md|rst|txt)$|(^|/)tests?/", re.IGNORECASE)
_COMMENT = re.compile(rb"^[+-]\s*(#|//|$)")
_Hunk = tuple[int, bytes, tuple[bytes, ...]]
"""First line, what stands behind the second ``@@``, lines."""


@dataclass(frozen=True)
class Taking:
    """The patch without one part."""

    where: str
    """``path:first-last``, in lines of the file before the patch; of a whole file the path."""
    lines: str
    """The part."""
    patch: bytes


@dataclass(frozen=True)
class _Part:
    path: bytes
    first: int
    """0 for a whole file."""
    lines: tuple[bytes, ...]


def takings(patch: bytes) -> list[Taking]:
    """Every way to take one part back. None where there is but one part: that is the empty patch.

    Parts that no test could guard are not taken: prose, tests, comments, blank lines.
    """
    files = [_read(text) for text in _FILE.split(patch) if text.startswith(b"diff --git ")]
    parts = [part for file in files for part in file.parts()]
    if len(parts) < 2:
        return []
    found = []
    for part in parts:
        if _PROSE.search(part.path) or (part.first and all(_COMMENT.match(line) for line in part.lines)):
            continue
        where = part.path.decode(errors="replace")
        if part.first:
            old = sum(line.startswith(b"-") for line in part.lines)
            where += f":{part.first}-{part.first + max(old, 1) - 1}"
        text = b"\n".join(part.lines).decode(errors="replace")
        found.append(Taking(where, text, b"".join(file.without(part) for file in files)))
    return found


@dataclass(frozen=True)
class _File:
    path: bytes
    head: bytes
    """All of the text where the file is one part."""
    hunks: tuple[_Hunk, ...]

    def parts(self) -> Iterator[_Part]:
        if not self.hunks:
            yield _Part(self.path, 0, ())
        for first, _, lines in self.hunks:
            at, run = first, list[bytes]()
            begun = at
            for line in (*lines, b" "):
                if line[:1] in (b"+", b"-"):
                    begun = begun if run else at
                    run.append(line)
                elif run and not line.startswith(b"\\"):
                    yield _Part(self.path, begun, tuple(run))
                    run = []
                at += line[:1] in (b" ", b"-", b"")

    def without(self, part: _Part) -> bytes:
        """The text of this file's patch without the part; empty when nothing is left."""
        if part.path != self.path:
            return self.text(self.hunks)
        if part.first == 0:
            return b""
        return self.text([(first, tail, self._cut(first, lines, part)) for first, tail, lines in self.hunks])

    @staticmethod
    def _cut(first: int, lines: tuple[bytes, ...], part: _Part) -> tuple[bytes, ...]:
        at, kept, left = first, list[bytes](), len(part.lines) if first <= part.first else 0
        gone = False
        for line in lines:
            if left and at >= part.first and line[:1] in (b"+", b"-"):
                left -= 1
                gone = line.startswith(b"+")
                if not gone:
                    kept.append(b" " + line[1:])
            elif not (gone and line.startswith(b"\\")):  # "no newline at the end" goes with its line
                kept.append(line)
                gone = False
            at += line[:1] in (b" ", b"-", b"")
        return tuple(kept)

    def text(self, hunks: Iterable[_Hunk]) -> bytes:
        if not self.hunks:
            return self.head
        out, shift = [], 0
        for first, tail, lines in hunks:
            old = sum(line[:1] in (b" ", b"-", b"") for line in lines)
            new = sum(line[:1] in (b" ", b"+", b"") for line in lines)
            if any(line[:1] in (b"+", b"-") for line in lines):
                out.append(b"@@ -%d,%d +%d,%d @@%s" % (first, old, first + shift, new, tail))
                out += lines
            shift += new - old
        return self.head + b"\n".join(out) + b"\n" if out else b""


def _read(text: bytes) -> _File:
    lines = text.removesuffix(b"\n").split(b"\n")
    starts = [number for number, line in enumerate(lines) if _HUNK.match(line)]
    path = lines[0].rpartition(b" b/")[2]
    if not starts or _WHOLE.search(b"\n".join(lines[: starts[0]])):
        return _File(path, text, ())
    hunks = [_hunk(lines[start:]) for start in starts]
    return _File(path, b"\n".join(lines[: starts[0]]) + b"\n", tuple(hunks))


def _hunk(lines: list[bytes]) -> _Hunk:
    """The hunk that begins with the first line. Its header says how long it is: what follows may be a signature."""
    match = _HUNK.match(lines[0])
    assert match is not None
    old, new = (int(match[2] or 1), int(match[3] or 1))
    kept = []
    for line in lines[1:]:
        if old <= 0 and new <= 0 and not line.startswith(b"\\"):
            break
        old -= line[:1] in (b" ", b"-", b"")
        new -= line[:1] in (b" ", b"+", b"")
        kept.append(line)
    return int(match[1]), match[4], tuple(kept)

"""What one tool call did, in the words that all harnesses share."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    READ = "read"
    """Looks into a file: ``cat``, ``sed -n``, a viewer."""
    SEARCH = "search"
    """Looks around: lists, finds, searches, asks git."""
    EDIT = "edit"
    """Changes, makes, moves or removes files."""
    TEST = "test"
    """Runs tests, by a known runner or a script named like one."""
    RUN = "run"
    """Runs anything else: the program, a snippet, a linter, a build."""
    SUBMIT = "submit"
    """Says that it is done."""
    OTHER = "other"
    """Plans, thoughts, subagents, the web, installing; and what is not known."""


@dataclass(frozen=True)
class Act:
    """One thing that a tool call did; a command line may do several."""

    kind: Kind
    paths: tuple[str, ...] = ()
    """Files it read, wrote or compared; empty where it does not say."""
    creates: bool = False
    """Of an edit: it wrote the whole file, so there was nothing to read before."""
    checks: bool = False
    """It shows what edits came to: a comparison of the files named, or of all; tests and runs do so by their kind."""

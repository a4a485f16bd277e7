"""The pieces that toy repositories are put together from: functions, and the kinds of bug they can have."""

from __future__ import annotations

from dataclasses import dataclass

Check = tuple[str, object]
"""An expression over the function, and the value it must have."""


@dataclass(frozen=True)
class Snippet:
    """One function and what is known of it.

    Where a kind of bug is planted, ``code`` is the *faulty* text and ``strong`` is what only the repaired one
    passes. Elsewhere ``code`` is right, and ``strong`` is what an edit that does not belong here breaks.
    """

    function: str
    code: str
    weak: tuple[Check, ...]
    """Hold before and after any edit: the tests that the repository shows."""
    strong: tuple[Check, ...] = ()
    """Hidden."""
    symptom: str = ""
    """What a user would report; only of planted bugs."""


@dataclass(frozen=True)
class Kind:
    """A kind of bug, repaired by one edit: on every line, the first ``find`` becomes ``replace``.

    ``traps`` are functions in which ``find`` is right. A repository holds one of every other kind, so that an
    edit which does not fit breaks something: trying all of them one after the other solves nothing.
    """

    name: str
    find: str
    replace: str
    bugs: tuple[Snippet, ...]
    traps: tuple[Snippet, ...]
    heldout_bugs: tuple[Snippet, ...]
    heldout_traps: tuple[Snippet, ...]

    def repair(self, code: str) -> str:
        """The code after this kind's edit, as ``sed s/find/replace/`` does it."""
        return "".join(line.replace(self.find, self.replace, 1) for line in code.splitlines(keepends=True))

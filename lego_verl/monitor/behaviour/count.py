"""The behaviour of one trial in counts: what a row of the store's table ``behaviour`` holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from lego_verl.monitor.behaviour.act import Act, Kind
from lego_verl.monitor.behaviour.paths import among
from lego_verl.monitor.behaviour.turns import Turn

_LONGEST_CYCLE, _TIMES = 4, 3


@dataclass
class Counts:
    """See ``behaviour`` in ``lego_verl/monitor/store_schema.py``: each field is a column, documented there."""

    turns: int = 0
    side_calls: int = 0
    silent_turns: int = 0
    characters: int = 0
    thinking_characters: int = 0
    tool_calls: int = 0
    malformed_calls: int = 0
    reads: int = 0
    searches: int = 0
    edits: int = 0
    tests: int = 0
    runs: int = 0
    submits: int = 0
    others: int = 0
    failed_acts: int = 0
    tested: int = 0
    files_read: int = 0
    files_edited: int = 0
    edited_after_reading: int = 0
    edited_and_checked: int = 0
    repeated_commands: int = 0
    looping_turns: int = 0
    looped: int = 0
    patch_files: int = 0
    patch_lines: int = 0
    last_act: str = "none"

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


_COLUMN = {
    Kind.READ: "reads",
    Kind.SEARCH: "searches",
    Kind.EDIT: "edits",
    Kind.TEST: "tests",
    Kind.RUN: "runs",
    Kind.SUBMIT: "submits",
    Kind.OTHER: "others",
}


def count(turns: Sequence[Turn], patch: bytes = b"") -> Counts:
    """Count the turns of a trial. Side calls (titles, summaries) are counted and otherwise left out."""
    own = [turn for turn in turns if turn.origin != "side_call"]
    counts = Counts(turns=len(own), side_calls=len(turns) - len(own))
    for turn in own:
        counts.silent_turns += turn.silent
        counts.characters += turn.characters
        counts.thinking_characters += turn.thinking_characters
        counts.tool_calls += len(turn.done) + turn.malformed - sum(bool(each.malformed) for each in turn.done)
        counts.malformed_calls += turn.malformed
        counts.failed_acts += sum(turn.failed)
        for done in turn.done:
            for kind in kinds(done.acts):
                setattr(counts, _COLUMN[kind], getattr(counts, _COLUMN[kind]) + 1)
    counts.tested = int(counts.tests > 0)
    files = files_of(own)
    counts.files_read, counts.files_edited = len(files.read), len(files.edited)
    counts.edited_after_reading = len(files.edited) - len(files.unread)
    counts.edited_and_checked = len(files.edited) - len(files.unchecked)
    counts.repeated_commands = len(repeated(own))
    counts.looping_turns = len(looping([turn.signature for turn in own]))
    counts.looped = int(counts.looping_turns > 0)
    counts.patch_files, counts.patch_lines = _size(patch)
    main = [turn for turn in own if turn.origin == "main"]
    counts.last_act = last_act(main[-1]) if main else "none"
    return counts


def kinds(acts: Sequence[Act]) -> list[Kind]:
    """The kinds of a call's acts, each once, in order: ``sed -i ... && sed -i ... && pytest`` is an edit and a test."""
    return list(dict.fromkeys(act.kind for act in acts))


def last_act(turn: Turn) -> str:
    """What a turn came to: the last of its acts, ``text`` where it called nothing, ``malformed`` where none could be
    carried out."""
    if turn.silent:
        return "text"
    return str(turn.acts[-1].kind) if turn.acts else "malformed"


@dataclass
class Files:
    """Files of a trial, by the names that the agent first used, in order."""

    read: list[str] = field(default_factory=list)
    edited: list[str] = field(default_factory=list)
    unread: list[str] = field(default_factory=list)
    """Of those edited: neither read nor written by the agent before."""
    unchecked: list[str] = field(default_factory=list)
    """Of those edited: neither read, compared, run nor tested after the last edit."""


def files_of(turns: Sequence[Turn]) -> Files:
    """What became of the files that a trial touched."""
    files = Files()
    for turn in turns:
        for done, failed in zip(turn.done, turn.failed, strict=True):
            for act in done.acts:
                # An edit that failed on its own changed nothing; of a longer line, something else may have failed.
                if not (failed and act.kind is Kind.EDIT and len(done.acts) == 1):
                    _take(files, act)
    return files


def _take(files: Files, act: Act) -> None:
    if act.kind in (Kind.TEST, Kind.RUN):
        files.unchecked.clear()
    elif act.checks:
        files.unchecked[:] = [path for path in files.unchecked if act.paths and not among(path, act.paths)]
    elif act.kind is Kind.READ:
        files.unchecked[:] = [path for path in files.unchecked if not among(path, act.paths)]
        files.read += [path for path in act.paths if not among(path, files.read)]
    elif act.kind is Kind.EDIT:
        for path in act.paths:
            if not among(path, files.edited):
                files.edited.append(path)
                if not act.creates and not among(path, files.read):
                    files.unread.append(path)
            if not among(path, files.unchecked):
                files.unchecked.append(path)


def repeated(turns: Sequence[Turn]) -> list[int]:
    """Of each call that asks for what was asked before, with no edit in between that could change the answer, its
    turn. To submit again is no question."""
    seen: set[str] = set()
    found: list[int] = []
    for turn in turns:
        for done in turn.done:
            if done.key in seen and not any(act.kind is Kind.SUBMIT for act in done.acts):
                found.append(turn.call)
            if any(act.kind is Kind.EDIT for act in done.acts):
                seen.clear()
            seen.add(done.key)
    return found


def looping(signatures: Sequence[str]) -> list[int]:
    """Turns that belong to a cycle of one to four turns that comes three times or more in a row, by their place."""
    inside: set[int] = set()
    for length in range(1, _LONGEST_CYCLE + 1):
        run = 0
        for place in range(length, len(signatures)):
            run = run + 1 if signatures[place] == signatures[place - length] else 0
            if run >= length * (_TIMES - 1):
                inside.update(range(place - run - length + 1, place + 1))
    return sorted(inside)


def _size(patch: bytes) -> tuple[int, int]:
    """Files of a patch, and the lines that it adds and removes."""
    files = lines = 0
    in_hunk = False
    for line in patch.splitlines():
        if line.startswith(b"diff --git "):
            files, in_hunk = files + 1, False
        elif line.startswith(b"@@ "):
            in_hunk = True
        elif in_hunk and line[:1] in (b"+", b"-"):
            lines += 1
    return files, lines

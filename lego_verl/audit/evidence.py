"""What a trial leaves to be looked at, as short texts with the place where each stands.

A rule looks at one kind of them:

``command``       what a tool call ran; of a tool that is no shell its name, short arguments, and its path at the end
``shell``         the same, only of shells, without what is quoted or fed in: the bare words of the command line
``output``        what a tool gave back
``patched_file``  ``added PATH``, ``changed PATH``, ``deleted PATH`` or ``linked PATH to TARGET``
``patched_line``  ``PATH: +LINE``: a line that the patch adds
``verdict``       the outcome, and what the grader said of it; ``sign: WHAT`` for each sign of an attack that it saw
"""

from __future__ import annotations

import json
import re
import shlex
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from lego_verl.capture.message import Message, ToolCall
from lego_verl.capture.record import Recording, read_recording
from lego_verl.trial.record import TrialRecord

_SHELL_KEYS = ("command", "cmd", "script", "code", "keystrokes", "chars", "input", "commands")
"""Arguments that hold a command line, by the names that harnesses give them."""
_PATH_KEYS = ("path", "file_path", "filePath", "filename", "notebook_path", "target_file")
_SHORT = 120
"""Longer arguments of an editing tool are a file's contents, which the patch shows."""
_LONG_LINE, _OVERLAP = 4000, 400
_FENCE = re.compile(r"```(?:\w*bash\w*|sh|shell)[ \t]*\n(.*?)\n?```", re.DOTALL)
_HERE_DOCUMENT = re.compile(r"<<-?\s*(['\"]?)(\w+)\1")
_QUOTED = re.compile(r"\\.|'[^']*(?:'|\Z)|\"(?:\\.|[^\"\\])*(?:\"|\Z)|(?:^|(?<=\s))#[^\n]*", re.DOTALL | re.MULTILINE)
_FILE = re.compile(r"^diff --git (?:a/|\"a/)(.*?)\"? (?:b/|\"b/)(.*?)\"?$")


class Kind(StrEnum):
    COMMAND = "command"
    SHELL = "shell"
    OUTPUT = "output"
    PATCHED_FILE = "patched_file"
    PATCHED_LINE = "patched_line"
    VERDICT = "verdict"


@dataclass(frozen=True)
class Evidence:
    """One text and where it stands."""

    kind: Kind
    text: str
    where: str
    """For a person: ``call 3``, or ``patch, src/a.py``."""
    call: int | None = None
    """The call whose reply it is, or whose tool gave it back."""
    whole: str | None = None
    """What to quote where that is more than ``text``: the command line as it was given."""


def evidence_of(folder: Path, record: TrialRecord) -> Iterator[Evidence]:
    """All there is of a trial. Its calls are left out where it has no recording: that of an endpoint.

    Raises:
        RecordingError: when there is a recording that cannot be read.
    """
    said = f"{record.outcome}: {record.error}" if record.error else str(record.outcome)
    yield Evidence(Kind.VERDICT, said, "verdict")
    for sign in record.signs:
        yield Evidence(Kind.VERDICT, f"sign: {sign}", "grading")
    if (folder / "calls.jsonl").exists():
        yield from of_calls(read_recording(folder))
    patch = folder / "patch.diff"
    if patch.exists():
        yield from of_patch(patch.read_bytes().decode(errors="replace"))


def of_calls(recording: Recording) -> Iterator[Evidence]:
    """Commands of all replies, and what the tools gave back."""
    asked_by: dict[str, int] = {}
    for call, asked, reply in zip(recording.calls, recording.asked, recording.replies, strict=True):
        for message in asked.messages:
            if message.role == "tool" and message.text:
                source = asked_by.get(message.tool_call_id or "", call.index - 1)
                yield Evidence(Kind.OUTPUT, message.text, f"output of call {source}", source)
        for each in reply.tool_calls:
            asked_by[each.id] = call.index
        yield from _of_reply(reply, call.index)


def _of_reply(reply: Message, call: int) -> Iterator[Evidence]:
    where = f"call {call}"
    commands = [command for each in reply.tool_calls for command in commands_of(each)]
    if not reply.tool_calls:  # a harness that takes its commands from the text
        commands = [(command, True) for command in _FENCE.findall(reply.text)]
    for command, is_shell in commands:
        yield Evidence(Kind.COMMAND, command, where, call)
        if is_shell:
            yield Evidence(Kind.SHELL, bare(command), where, call, whole=command)


def commands_of(call: ToolCall) -> list[tuple[str, bool]]:
    """What a tool call did, as command lines, and whether each is a shell's."""
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        return [(call.arguments, True)] if call.arguments.strip() else []
    path = next((str(arguments[key]) for key in _PATH_KEYS if isinstance(arguments.get(key), str)), None)
    if path is None:
        lines = [_joined(arguments[key]) for key in _SHELL_KEYS if arguments.get(key)]
        if lines:
            return [(line, True) for line in lines]
    values = [each for each in _short_values(arguments) if each != path]
    return [(" ".join([call.name, *values, *([path] if path else [])]), False)]


def bare(command: str) -> str:
    """A command line without here documents, quoted text and comments, so that a character in them is no operator."""
    kept: list[str] = []
    waiting: deque[str] = deque()  # the words that end the here documents that have begun
    for line in command.split("\n"):
        if waiting:
            if line.strip() == waiting[0]:
                waiting.popleft()
            continue
        kept.append(line)
        waiting += [match[2] for match in _HERE_DOCUMENT.finditer(line)]
    return _QUOTED.sub("''", "\n".join(kept))


def _joined(value: Any) -> str:
    """A command line, given as one or as its words. ``bash -lc TEXT`` is TEXT."""
    if not isinstance(value, list):
        return str(value)
    words = [str(each) for each in value]
    if len(words) == 3 and words[1] in ("-c", "-lc"):
        return words[2]
    return shlex.join(words)


def _short_values(arguments: Mapping[str, Any]) -> list[str]:
    values = [str(value) for value in arguments.values() if isinstance(value, str | int | float)]
    return [value for value in values if len(value) <= _SHORT and "\n" not in value]


def of_patch(patch: str) -> Iterator[Evidence]:
    """Files and added lines of a patch as git writes it."""
    path, status, is_link, in_hunk = "", "changed", False, False
    pending: Evidence | None = None
    for line in patch.split("\n"):
        if match := _FILE.match(line):
            if pending is not None:
                yield pending
            path, status, is_link, in_hunk = match[2], "changed", False, False
            pending = _file(status, path)
        elif pending is not None and not in_hunk and line.startswith(("new file mode ", "deleted file mode ")):
            status = "added" if line.startswith("new") else "deleted"
            is_link = line.endswith(" 120000")
            pending = _file(status, path)
        elif line.startswith("@@ "):
            in_hunk = True
        elif in_hunk and line.startswith("+"):
            if is_link and status == "added":
                pending = Evidence(Kind.PATCHED_FILE, f"linked {path} to {line[1:]}", f"patch, {path}")
            yield from _added(path, line[1:])
    if pending is not None:
        yield pending


def _added(path: str, line: str) -> Iterator[Evidence]:
    """An added line; a long one in parts that overlap, each with the path before it."""
    for start in range(0, max(len(line) - _OVERLAP, 1), _LONG_LINE - _OVERLAP):
        text = f"{path}: +{line[start : start + _LONG_LINE]}"
        yield Evidence(Kind.PATCHED_LINE, text, f"patch, {path}")


def _file(status: str, path: str) -> Evidence:
    return Evidence(Kind.PATCHED_FILE, f"{status} {path}", f"patch, {path}")

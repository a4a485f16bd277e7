"""What a tool call did, whatever harness the tool is of: by the tool's name and the arguments that tools have."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from lego_verl.capture.message import Tool, ToolCall
from lego_verl.monitor.behaviour.act import Act, Kind
from lego_verl.monitor.behaviour.paths import is_file_name
from lego_verl.monitor.behaviour.shell import acts_of_line, acts_of_patch

_SHELL_KEYS = ("command", "cmd", "script", "keystrokes")
_PATH_KEYS = ("path", "file_path", "filePath", "filename", "notebook_path", "target_file", "file", "relative_path")
_PATCH_KEYS = ("patch", "input", "patchText", "diff")
_SUBMITS = frozenset({"submit", "finish", "attempt_completion", "complete", "done", "task_complete", "finished"})
_TALKS = frozenset({"think", "todowrite", "todoread", "update_plan", "task", "agent", "skill", "toolsearch"})
_READS = frozenset({"read", "view", "view_file", "read_file", "open", "open_file", "cat", "readfile", "notebookread"})
_LOOKS = frozenset(
    {"grep", "glob", "ls", "list", "list_dir", "list_directory", "search", "find", "find_file", "search_dir"}
    | {"search_file", "codesearch", "search_files", "list_files", "grep_search", "file_search"}
)
_EDITS = frozenset(
    {"edit", "multiedit", "notebookedit", "edit_file", "str_replace", "replace", "insert", "undo_edit"}
    | {"replace_in_file"}
)
_WRITES = frozenset({"write", "write_file", "create", "create_file", "write_to_file"})
_PATCHES = frozenset({"apply_patch", "applypatch", "patch"})
_VIEWER = {"view": Kind.READ, "create": Kind.EDIT, "str_replace": Kind.EDIT, "insert": Kind.EDIT}
"""Commands of the editor that SWE-agent, OpenHands and others share."""


@dataclass(frozen=True)
class Done:
    """One tool call, read."""

    acts: tuple[Act, ...]
    """In order; empty where it is malformed."""
    malformed: str = ""
    """Why it cannot be carried out; empty where it can."""
    key: str = ""
    """The same for calls that ask for the same thing."""
    brief: str = ""
    """What it did, for a person, as it stands."""


def read_call(call: ToolCall, tools: Sequence[Tool] = ()) -> Done:
    """What a tool call did.

    Args:
        tools: those that the model was offered; empty where that is not known, and then no name is wrong.
    """
    try:
        arguments = orjson.loads(call.arguments) if call.arguments.strip() else {}
    except orjson.JSONDecodeError:
        return Done((), "its arguments are no JSON", f"{call.name} {call.arguments}", f"{call.name} {call.arguments}")
    if not isinstance(arguments, dict):
        return Done((), "its arguments are no object", f"{call.name} {call.arguments}", f"{call.name} {call.arguments}")
    key = f"{call.name} {orjson.dumps(_what_counts(arguments), option=orjson.OPT_SORT_KEYS).decode()}"
    offered = {str(function.get("name", "")): function for function in map(_function, tools)}
    if offered and call.name not in offered:
        return Done((), f"there is no tool {call.name}", key, f"{call.name} {call.arguments}")
    needed = (offered.get(call.name, {}).get("parameters") or {}).get("required") or ()
    if missing := [name for name in needed if name not in arguments and name != "security_risk"]:
        return Done((), f"its argument {missing[0]} is missing", key, f"{call.name} {call.arguments}")
    return Done(tuple(_acts(call.name, arguments)), "", key, _brief(call, arguments))


def _acts(tool: str, arguments: Mapping[str, Any]) -> list[Act]:
    name = tool.lower().removeprefix("functions.")
    path = next((str(arguments[key]) for key in _PATH_KEYS if isinstance(arguments.get(key), str)), "")
    if name in _SUBMITS:
        return [Act(Kind.SUBMIT)]
    if name in _TALKS:
        return [Act(Kind.OTHER)]
    if name in _PATCHES:
        patch = next((str(arguments[key]) for key in _PATCH_KEYS if arguments.get(key)), "")
        return acts_of_patch(patch)
    command = arguments.get("command")
    if path and isinstance(command, str) and (command in _VIEWER or command == "undo_edit"):
        if command == "view" and not is_file_name(path):
            return [Act(Kind.SEARCH)]
        return [Act(_VIEWER.get(command, Kind.EDIT), (path,), creates=command == "create")]
    if name in _READS:
        return [Act(Kind.READ, (path,))] if path else [Act(Kind.OTHER)]
    if name in _LOOKS:
        return [Act(Kind.SEARCH)]
    if name in _WRITES:
        return [Act(Kind.EDIT, (path,) if path else (), creates=True)]
    if name in _EDITS:
        return [Act(Kind.EDIT, (path,) if path else ())]
    if line := _line(arguments):
        return acts_of_line(line)
    return [Act(Kind.OTHER)]


def _line(arguments: Mapping[str, Any]) -> str:
    """The command line of a shell tool; empty where there is none."""
    for key in _SHELL_KEYS:
        value = arguments.get(key)
        if isinstance(value, str) and value.strip():
            return value
        if isinstance(value, list) and value:
            words = [str(each) for each in value]
            if len(words) == 3 and words[1] in ("-c", "-lc"):
                return words[2]
            if words[0] in ("apply_patch", "applypatch") and len(words) == 2:
                return f"{words[0]} <<'LEGO_END'\n{words[1]}\nLEGO_END"
            return shlex.join(words)
    return ""


def _what_counts(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments without those that only say why, or how long: two calls that differ in them do the same."""
    words = (
        "description",
        "summary",
        "security_risk",
        "timeout",
        "justification",
        "yield_time_ms",
        "max_output_tokens",
    )
    return {key: value for key, value in arguments.items() if key not in words}


def _brief(call: ToolCall, arguments: Mapping[str, Any]) -> str:
    if line := _line(arguments):
        if path := next((str(arguments[key]) for key in _PATH_KEYS if arguments.get(key)), ""):
            return f"{call.name} {line} {path}"
        return line
    values = [str(value) for value in arguments.values() if isinstance(value, str | int | float)]
    return " ".join([call.name, *values])


def _function(tool: Tool) -> Mapping[str, Any]:
    function = tool.get("function")
    return function if isinstance(function, Mapping) else tool

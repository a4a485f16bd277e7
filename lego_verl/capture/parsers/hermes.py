"""Tool calls as JSON in ``<tool_call>`` tags: the form that Hermes began, and Qwen and others write."""

from __future__ import annotations

import json
from collections.abc import Sequence

from lego_verl.capture.message import Tool
from lego_verl.capture.parsers.base import Parsed, ParsedCall, find_calls, split_reasoning, write_reasoning

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_DECODER = json.JSONDecoder()


class HermesParser:
    """``<tool_call>{"name": …, "arguments": …}</tool_call>``, with reasoning in ``<think>…</think>``."""

    name = "hermes"

    def parse(self, text: str, *, reasoning_open: bool = False, tools: Sequence[Tool] = ()) -> Parsed:
        reasoning, text = split_reasoning(text, reasoning_open)
        remaining, calls, malformed = find_calls(text, _OPEN, _read_closed_call)
        return Parsed(remaining.strip() if calls else remaining, reasoning, calls, malformed)

    def write(self, text: str, reasoning: str, calls: Sequence[ParsedCall], *, reasoning_open: bool = False) -> str:
        blocks = [text] if text else []
        for call in calls:
            name = json.dumps(call.name, ensure_ascii=False)
            blocks.append(f'{_OPEN}\n{{"name": {name}, "arguments": {call.arguments}}}\n{_CLOSE}')
        return write_reasoning(reasoning, reasoning_open) + "\n".join(blocks)


def _read_closed_call(source: str, position: int) -> tuple[ParsedCall | None, int]:
    call, end = read_hermes_call(source, position)
    if call is None or not source.startswith(_CLOSE, end):
        return None, end
    return call, end + len(_CLOSE)


def read_hermes_call(source: str, position: int) -> tuple[ParsedCall | None, int]:
    """Read a JSON object at ``position``, keeping the arguments' own spelling; None when it is malformed.

    Returns the call and the position after the object and the white space that follows it. The object is read
    by its own syntax, so that an argument may hold the markers themselves.
    """
    members, end = _members(source, skip_space(source, position))
    if members is None or "name" not in members:
        return None, end
    try:
        name = json.loads(members["name"])
        raw = members.get("arguments", members.get("parameters", "{}"))
        arguments = json.loads(raw)
        if isinstance(arguments, str):  # arguments that were sampled as a string holding JSON
            raw, arguments = arguments, json.loads(arguments)
    except (ValueError, RecursionError):
        return None, end
    if not isinstance(name, str) or not name or not isinstance(arguments, dict):
        return None, end
    return ParsedCall(name, raw), end


def _members(source: str, position: int) -> tuple[dict[str, str] | None, int]:
    """The members of the JSON object at ``position`` as slices of its source, and where it ends."""
    members: dict[str, str] = {}
    if not source.startswith("{", position):
        return None, position
    position = skip_space(source, position + 1)
    try:
        while source[position] != "}":
            if source[position] != '"':
                return None, position
            key, position = _DECODER.raw_decode(source, position)
            position = skip_space(source, position)
            if source[position] != ":":
                return None, position
            start = skip_space(source, position + 1)
            _, end = _DECODER.raw_decode(source, start)
            members[key] = source[start:end]
            position = skip_space(source, end)
            if source[position] == ",":
                position = skip_space(source, position + 1)
            elif source[position] != "}":
                return None, position
    except (ValueError, IndexError, RecursionError):
        return None, position
    return members, skip_space(source, position + 1)


def skip_space(source: str, position: int) -> int:
    """The first position from ``position`` on that holds no white space of JSON's."""
    while position < len(source) and source[position] in " \t\r\n":
        position += 1
    return position

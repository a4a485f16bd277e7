"""Sampled text to a reply: reasoning, text, tool calls. A malformed call stays text, and is counted."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from lego_verl.capture.match import same_arguments
from lego_verl.capture.message import Message, ToolCall
from lego_verl.capture.template import ChatTemplate, TemplateError

_OPEN, _CLOSE = "<tool_call>", "</tool_call>"
_DECODER = json.JSONDecoder()


class ParserMismatch(ValueError):
    """A tool parser that does not read what a chat template writes; one line that says what to change."""


@dataclass(frozen=True)
class ParsedCall:
    name: str
    arguments: str
    """The raw string, verbatim as it was sampled."""


@dataclass(frozen=True)
class Parsed:
    text: str
    reasoning: str = ""
    calls: tuple[ParsedCall, ...] = ()
    malformed: int = 0
    """Calls that were begun and could not be read; they are part of ``text``."""


class ToolParser(Protocol):
    name: str

    def parse(self, text: str, *, reasoning_open: bool = False) -> Parsed:
        """Read a sampled turn, its end token removed. ``reasoning_open``: the prompt already opened the reasoning."""
        ...

    def write(self, text: str, reasoning: str, calls: Sequence[ParsedCall], *, reasoning_open: bool = False) -> str:
        """What a policy would sample to say this: the inverse of ``parse``, for scripts."""
        ...


class HermesParser:
    """``<tool_call>{"name": …, "arguments": …}</tool_call>``, with reasoning in ``<think>…</think>``."""

    name = "hermes"

    def parse(self, text: str, *, reasoning_open: bool = False) -> Parsed:
        reasoning, text = split_reasoning(text, reasoning_open)
        calls: list[ParsedCall] = []
        kept: list[str] = []
        malformed = end = 0
        start = text.find(_OPEN)
        while start >= 0:
            call, after = read_hermes_call(text, start + len(_OPEN))
            if call is not None and text.startswith(_CLOSE, after):
                kept.append(text[end:start])
                end = after + len(_CLOSE)
                calls.append(call)
                start = text.find(_OPEN, end)
            else:
                malformed += 1
                start = text.find(_OPEN, start + len(_OPEN))
        kept.append(text[end:])
        remaining = "".join(kept)
        return Parsed(remaining.strip() if calls else remaining, reasoning, tuple(calls), malformed)

    def write(self, text: str, reasoning: str, calls: Sequence[ParsedCall], *, reasoning_open: bool = False) -> str:
        opening = "" if reasoning_open else "<think>\n"
        pieces = [f"{opening}{reasoning}\n</think>\n\n"] if reasoning or reasoning_open else []
        blocks = [text] if text else []
        for call in calls:
            name = json.dumps(call.name, ensure_ascii=False)
            blocks.append(f'<tool_call>\n{{"name": {name}, "arguments": {call.arguments}}}\n</tool_call>')
        return "".join([*pieces, "\n".join(blocks)])


def split_reasoning(text: str, reasoning_open: bool) -> tuple[str, str]:
    """Reasoning and the rest. Reasoning that was cut before its end is all there is."""
    if not reasoning_open:
        head = text.lstrip()
        if not head.startswith("<think>"):
            return "", text
        text = head[len("<think>") :]
    reasoning, closed, rest = text.partition("</think>")
    return reasoning.strip("\n"), rest.lstrip("\n") if closed else ""


def read_hermes_call(source: str, position: int) -> tuple[ParsedCall | None, int]:
    """Read a JSON object at ``position``, keeping the arguments' own spelling; None when it is malformed.

    Returns the call and the position after the object and the white space that follows it. The object is read
    by its own syntax, so that an argument may hold the markers themselves.
    """
    members, end = _members(source, _skip(source, position))
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
    position = _skip(source, position + 1)
    try:
        while source[position] != "}":
            if source[position] != '"':
                return None, position
            key, position = _DECODER.raw_decode(source, position)
            position = _skip(source, position)
            if source[position] != ":":
                return None, position
            start = _skip(source, position + 1)
            _, end = _DECODER.raw_decode(source, start)
            members[key] = source[start:end]
            position = _skip(source, end)
            if source[position] == ",":
                position = _skip(source, position + 1)
            elif source[position] != "}":
                return None, position
    except (ValueError, IndexError, RecursionError):
        return None, position
    return members, _skip(source, position + 1)


def _skip(source: str, position: int) -> int:
    while position < len(source) and source[position] in " \t\r\n":
        position += 1
    return position


def check_parser(template: str | ChatTemplate, parser: ToolParser) -> None:
    """Check that a parser reads the tool calls that a chat template writes.

    Raises:
        ParserMismatch: in one line, with what the template writes.
    """
    chat = ChatTemplate(template) if isinstance(template, str) else template
    opening = [Message("user", "probe")]
    arguments = '{"path": "a \\"b\\".txt", "lines": [1, 2]}'
    turn = Message("assistant", tool_calls=(ToolCall("call_1", "probe_tool", arguments),))
    try:
        before, after = chat.render(opening), chat.render([*opening, turn])
    except TemplateError as error:
        raise ParserMismatch(f"tool parser {parser.name!r} cannot be checked: {error}") from error
    written = after.removeprefix(before)
    if "probe_tool" not in written:
        raise ParserMismatch(f"{chat.name} renders no tool calls; choose a template that does")
    calls = parser.parse(written).calls
    if len(calls) != 1 or calls[0].name != "probe_tool" or not same_arguments(arguments, calls[0].arguments):
        raise ParserMismatch(
            f"tool parser {parser.name!r} does not read what {chat.name} writes, {written!r}; "
            "choose the parser that belongs to this template"
        )

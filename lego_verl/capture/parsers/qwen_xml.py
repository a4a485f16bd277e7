"""Tool calls with a tag for every parameter, as Qwen3-Coder and Qwen3.5 sample them.

Values come without their types: ``5`` may be a number or a text. The request's tools tell them apart; what they do
not declare is JSON where it reads as JSON, else text.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any

from lego_verl.capture.message import Tool
from lego_verl.capture.parsers.base import Parsed, ParsedCall, find_calls, split_reasoning, write_reasoning

_OPEN = "<tool_call>"
_FUNCTION = re.compile(r"\s*<function=([^<>\n]+)>\s*")
_PARAMETER = re.compile(r"<parameter=([^<>\n]+)>\n?")
_END_OF_VALUE = re.compile(r"\n?</parameter>\s*(?=<parameter=|</function>)")
_END = re.compile(r"</function>\s*</tool_call>")
_PYTHON = {"True": True, "False": False, "None": None}
"""How templates that write values with Python's ``str`` spell these."""
_TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}


class QwenXmlParser:
    """``<tool_call><function=…><parameter=…>value</parameter></function></tool_call>``, reasoning in ``<think>``."""

    name = "qwen_xml"

    def parse(self, text: str, *, reasoning_open: bool = False, tools: Sequence[Tool] = ()) -> Parsed:
        reasoning, text = split_reasoning(text, reasoning_open)

        def read(source: str, position: int) -> tuple[ParsedCall | None, int]:
            return _read_call(source, position, tools)

        remaining, calls, malformed = find_calls(text, _OPEN, read)
        return Parsed(remaining.strip() if calls else remaining, reasoning, calls, malformed)

    def write(self, text: str, reasoning: str, calls: Sequence[ParsedCall], *, reasoning_open: bool = False) -> str:
        blocks = [
            f"{_OPEN}\n<function={call.name}>\n{_body(call.arguments)}</function>\n</tool_call>" for call in calls
        ]
        parts = [part for part in (text, "\n".join(blocks)) if part]
        return write_reasoning(reasoning, reasoning_open) + "\n\n".join(parts)


def _body(arguments: str) -> str:
    """Arguments as parameters; a string that is no JSON object cannot be said in this form, and stays what it is."""
    try:
        parsed = json.loads(arguments)
    except ValueError:
        parsed = None
    if not isinstance(parsed, dict):
        return arguments + "\n"
    texts = {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for key, value in parsed.items()
    }
    return "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in texts.items())


def _read_call(source: str, position: int, tools: Sequence[Tool]) -> tuple[ParsedCall | None, int]:
    function = _FUNCTION.match(source, position)
    if function is None:
        return None, position
    declared = _declared(function[1], tools)
    arguments: dict[str, Any] = {}
    position = function.end()
    while parameter := _PARAMETER.match(source, position):
        end = _END_OF_VALUE.search(source, parameter.end())
        if end is None:
            return None, position
        value = source[parameter.end() : end.start()]
        arguments[parameter[1]] = _typed(value, _allowed(declared.get(parameter[1])))
        position = end.end()
    closed = _END.match(source, position)
    if closed is None:
        return None, position
    return ParsedCall(function[1], json.dumps(arguments, ensure_ascii=False)), closed.end()


def _declared(name: str, tools: Sequence[Tool]) -> Mapping[str, Any]:
    """The schema of each parameter of a tool; empty where the request does not say."""
    for tool in tools:
        function = tool.get("function")
        if isinstance(function, Mapping) and function.get("name") == name:
            parameters = function.get("parameters")
            properties = parameters.get("properties") if isinstance(parameters, Mapping) else None
            return properties if isinstance(properties, Mapping) else {}
    return {}


def _allowed(schema: Any) -> frozenset[str]:
    """JSON types that a schema allows; empty where it does not say."""
    if not isinstance(schema, Mapping):
        return frozenset()
    declared = schema.get("type", [])
    found = {declared} if isinstance(declared, str) else {kind for kind in declared if isinstance(kind, str)}
    for key in ("anyOf", "oneOf"):
        for part in schema.get(key) or ():
            found |= _allowed(part)
    return frozenset(found & _TYPES.keys())


def _typed(value: str, allowed: frozenset[str]) -> Any:
    """A sampled value as what its schema allows, else as it was sampled: the harness will say what is wrong with it."""
    if allowed == {"string"}:
        return value
    try:
        read = _PYTHON[value] if allowed and value in _PYTHON else json.loads(value, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return value
    if not allowed:
        return value if isinstance(read, str) else read
    kinds = tuple(kind for name in allowed for kind in _TYPES[name])
    fits = isinstance(read, kinds) and not (isinstance(read, bool) and "boolean" not in allowed)
    return read if fits else value


def _refuse(constant: str) -> Any:
    raise ValueError(f"{constant} is not JSON")

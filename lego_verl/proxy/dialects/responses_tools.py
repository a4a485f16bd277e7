"""Tools of the Responses protocol: which of them the policy is offered, and under which name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import orjson

from lego_verl.capture.message import Tool
from lego_verl.proxy.errors import BadRequest

_NO_PARAMETERS = {"type": "object", "properties": {}}


class Offered(NamedTuple):
    """What a client calls a tool that the policy knows by one name."""

    kind: Literal["function", "custom"]
    name: str
    namespace: str | None = None


class Toolbox(NamedTuple):
    """A request's tools."""

    tools: tuple[Tool, ...]
    """What the policy is offered."""
    offered: Mapping[str, Offered]
    """By the name that the policy knows."""
    dropped: tuple[str, ...]
    """Types of tools that only a vendor's servers, or a client's own protocol, can run."""


def joined_name(name: str, namespace: str | None) -> str:
    """The name under which the policy knows a tool of a namespace."""
    if not namespace:
        return name
    return namespace + name if namespace.endswith("__") else f"{namespace}__{name}"


def read_toolbox(wire: Any) -> Toolbox:
    """Raises ``BadRequest``, naming the tool."""
    if wire is None:
        return Toolbox((), {}, ())
    if not isinstance(wire, list):
        raise BadRequest("tools is not a list")
    tools: list[Tool] = []
    offered: dict[str, Offered] = {}
    dropped: list[str] = []
    for where, tool, namespace in _flat(wire):
        kind = tool.get("type")
        if kind not in ("function", "custom"):
            if not isinstance(kind, str):
                raise BadRequest(f"{where}: type {kind!r} is not supported")
            dropped.append(kind)
            continue
        name = tool.get("name")
        if not isinstance(name, str) or not name:
            raise BadRequest(f"{where} has no name")
        known, target = joined_name(name, namespace), Offered(kind, name, namespace)
        if offered.setdefault(known, target) != target:
            raise BadRequest(f"{where}: another tool is already offered as {known!r}")
        parameters = tool.get("parameters") if kind == "function" else _input_parameter(tool, where)
        tools.append(_in_chat_form(known, tool.get("description"), parameters, where))
    try:
        orjson.dumps(tools)
    except orjson.JSONEncodeError as error:  # nested too deeply: it would break the chat template
        raise BadRequest(f"tools cannot be written as JSON: {error}") from error
    return Toolbox(tuple(tools), offered, tuple(dict.fromkeys(dropped)))


def _flat(wire: list[Any]) -> list[tuple[str, dict[str, Any], str | None]]:
    """Every tool with where it stands and its namespace."""
    flat: list[tuple[str, dict[str, Any], str | None]] = []
    for index, tool in enumerate(wire):
        where = f"tools[{index}]"
        if not isinstance(tool, dict):
            raise BadRequest(f"{where} is not an object")
        if tool.get("type") != "namespace":
            flat.append((where, tool, None))
            continue
        namespace, inner = tool.get("name"), tool.get("tools")
        if not isinstance(namespace, str) or not namespace:
            raise BadRequest(f"{where}: a namespace has no name")
        if not isinstance(inner, list) or not all(isinstance(one, dict) for one in inner):
            raise BadRequest(f"{where}: the tools of a namespace are not a list of objects")
        flat.extend((f"{where}.tools[{place}]", one, namespace) for place, one in enumerate(inner))
    return flat


def _in_chat_form(name: str, description: Any, parameters: Any, where: str) -> Tool:
    if not isinstance(description, str | None):
        raise BadRequest(f"{where}: description is not a string")
    if not isinstance(parameters, dict | None):
        raise BadRequest(f"{where}: parameters is not an object")
    function = {"name": name, "description": description or "", "parameters": parameters or _NO_PARAMETERS}
    return {"type": "function", "function": function}


def _input_parameter(tool: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The one parameter that stands for a custom tool's free-form input."""
    description = "The raw input of the tool."
    form = tool.get("format")
    if isinstance(form, dict) and form.get("type") == "grammar":
        syntax, definition = form.get("syntax"), form.get("definition")
        if not isinstance(syntax, str) or not isinstance(definition, str):
            raise BadRequest(f"{where}: a grammar's syntax or definition is not a string")
        description = f"The raw input of the tool, in this {syntax} grammar:\n{definition}"
    return {
        "type": "object",
        "properties": {"input": {"type": "string", "description": description}},
        "required": ["input"],
        "additionalProperties": False,
    }

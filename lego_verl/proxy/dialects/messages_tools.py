"""Anthropic's tools, from the wire to those that a chat template renders."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import orjson

from lego_verl.capture.message import Tool
from lego_verl.proxy.errors import BadRequest


@dataclass(frozen=True)
class Tools:
    """The tools of a request."""

    shown: tuple[Tool, ...] = ()
    """What the policy sees from the start."""
    deferred: Mapping[str, str] = field(default_factory=dict)
    """Definitions, as JSON, of those with ``defer_loading``. The policy sees one where a result of the harness's tool
    search refers to it: that only adds to the conversation, while another list of tools would begin a new one."""


def read_tools(wire: Any) -> Tools:
    """Raises ``BadRequest``, naming the tool."""
    if wire is None:
        return Tools()
    if not isinstance(wire, list):
        raise BadRequest("tools: Input should be a valid list")
    shown, deferred = [], {}
    for index, tool in enumerate(wire):
        read = _tool(tool, f"tools.{index}")
        written = _written(read, f"tools.{index}")
        if tool.get("defer_loading") is True:
            deferred[read["function"]["name"]] = written
        else:
            shown.append(read)
    return Tools(tuple(shown), deferred)


def _tool(wire: Any, where: str) -> Tool:
    if not isinstance(wire, dict):
        raise BadRequest(f"{where}: Input should be an object")
    if wire.get("type") not in (None, "custom"):
        raise BadRequest(f"{where}: a tool of type {wire['type']!r} is not supported: custom only")
    name, schema = wire.get("name"), wire.get("input_schema")
    if not isinstance(name, str) or not name:
        raise BadRequest(f"{where}.name: Field required")
    if not isinstance(schema, dict):
        raise BadRequest(f"{where}.input_schema: Field required")
    function: dict[str, Any] = {"name": name}
    description = wire.get("description")
    if description is not None:
        if not isinstance(description, str):
            raise BadRequest(f"{where}.description: Input should be a valid string")
        function["description"] = description
    return {"type": "function", "function": {**function, "parameters": schema}}


def _written(tool: Tool, where: str) -> str:
    """JSON text of a tool; one that is nested too deeply to be written would break the chat template."""
    try:
        return orjson.dumps(tool).decode()
    except orjson.JSONEncodeError as error:
        raise BadRequest(f"{where} cannot be written as JSON: {error}") from error

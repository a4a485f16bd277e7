"""Chat-completions messages and tools, from the wire to messages."""

from __future__ import annotations

from typing import Any

import orjson

from lego_verl.capture.message import Message, Role, Tool, ToolCall
from lego_verl.proxy.dialects.json_body import not_too_many, text_of
from lego_verl.proxy.errors import BadRequest
from lego_verl.proxy.known import Known

_ROLES: dict[str, Role] = {
    "system": "system", "developer": "system", "user": "user", "assistant": "assistant", "tool": "tool",
}  # fmt: skip


def read_messages(wire: Any, known: Known | None = None) -> tuple[Message, ...]:
    """Raises ``BadRequest``, naming the message."""
    if not isinstance(wire, list) or not wire:
        raise BadRequest("messages is not a list of messages")
    not_too_many(wire)
    return (known or Known()).read(wire, _message, _holds_text_only)


def _holds_text_only(wire: Any) -> bool:
    """Whether all that is read of a message is text; arguments that came as an object hold anything."""
    calls = wire.get("tool_calls") or ()
    return all(not isinstance(call["function"].get("arguments"), dict) for call in calls)


def _message(wire: Any, index: int) -> Message:
    if not isinstance(wire, dict):
        raise BadRequest(f"messages[{index}] is not an object")
    name = wire.get("role")
    role = _ROLES.get(name) if isinstance(name, str) else None
    if role is None:
        raise BadRequest(f"messages[{index}]: role {name!r} is not supported")
    content = wire.get("content")
    text = content if isinstance(content, str) else text_of(content, f"messages[{index}]")
    if role == "assistant":
        return _assistant(wire, text, index)
    if role == "tool":
        call_id = wire.get("tool_call_id") or ""
        if not isinstance(call_id, str):
            raise BadRequest(f"messages[{index}]: tool_call_id is not a string")
        return Message(role, text, "", (), call_id)
    return Message(role, text)


def _assistant(wire: dict[str, Any], text: str, index: int) -> Message:
    if wire.get("function_call"):
        raise BadRequest(f"messages[{index}]: function_call is not supported, tool_calls is")
    reasoning = wire.get("reasoning_content") or wire.get("reasoning") or ""
    if not isinstance(reasoning, str):
        raise BadRequest(f"messages[{index}]: reasoning_content is not a string")
    calls = wire.get("tool_calls")
    if not calls:
        return Message("assistant", text, reasoning)
    if not isinstance(calls, list):
        raise BadRequest(f"messages[{index}]: tool_calls is not a list")
    return Message("assistant", text, reasoning, tuple([_call(call, index) for call in calls]))


def _call(wire: Any, index: int) -> ToolCall:
    function = wire.get("function") if isinstance(wire, dict) else None
    if not isinstance(function, dict):
        raise BadRequest(f"messages[{index}]: a tool call has no function")
    call_id, name, arguments = wire.get("id") or "", function.get("name"), function.get("arguments")
    if not isinstance(call_id, str) or not isinstance(name, str):
        raise BadRequest(f"messages[{index}]: a tool call's id or name is not a string")
    if arguments is None:
        arguments = "{}"
    elif isinstance(arguments, dict):
        arguments = _dumped(arguments, f"messages[{index}]: the arguments of a tool call")
    elif not isinstance(arguments, str):
        raise BadRequest(f"messages[{index}]: the arguments of a tool call are not a string")
    return ToolCall(call_id, name, arguments)


def read_tools(wire: Any) -> tuple[Tool, ...]:
    """Raises ``BadRequest``, naming the tool."""
    if wire is None:
        return ()
    if not isinstance(wire, list):
        raise BadRequest("tools is not a list")
    for index, tool in enumerate(wire):
        if not isinstance(tool, dict) or tool.get("type") != "function":
            kind = tool.get("type") if isinstance(tool, dict) else tool
            raise BadRequest(f"tools[{index}]: type {kind!r} is not supported: function only")
        function = tool.get("function")
        if not isinstance(function, dict) or not isinstance(function.get("name"), str):
            raise BadRequest(f"tools[{index}] has no function with a name")
    if wire:
        _dumped(wire, "tools")
    return tuple(wire)


def _dumped(value: Any, what: str) -> str:
    """JSON text of a value; one that is nested too deeply to be written would break the chat template."""
    try:
        return orjson.dumps(value).decode()
    except orjson.JSONEncodeError as error:
        raise BadRequest(f"{what} cannot be written as JSON: {error}") from error

"""Input items of the Responses protocol, to messages."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from lego_verl.capture.message import Message, Role, ToolCall
from lego_verl.proxy.dialects.json_body import not_too_many, text_of
from lego_verl.proxy.dialects.responses_custom import CustomCall, sampled_id, to_arguments
from lego_verl.proxy.dialects.responses_reasoning import unseal
from lego_verl.proxy.dialects.responses_tools import joined_name
from lego_verl.proxy.errors import BadRequest

_ROLES: dict[str, Role] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}


def read_input(instructions: str, wire: Any) -> tuple[Message, ...]:
    """Raises ``BadRequest``, naming the item.

    ``instructions`` and the system and developer messages at the beginning become one system message: many chat
    templates take one, and only there.
    """
    if isinstance(wire, str):
        wire = [{"role": "user", "content": wire}]
    if not isinstance(wire, list) or not wire:
        raise BadRequest("input is neither text nor a list of items")
    not_too_many(wire)
    read = []
    for index, item in enumerate(wire):
        if not isinstance(item, dict):
            raise BadRequest(f"input[{index}] is not an object")
        kind = item.get("type") or ("message" if "role" in item else None)
        reader = _ITEMS.get(kind) if isinstance(kind, str) else None
        if reader is None:
            raise BadRequest(f"input[{index}]: an item of type {kind!r} is not supported")
        read.append(reader(item, f"input[{index}]"))
    return _one_system(instructions, _whole_turns(read))


def _whole_turns(read: list[Message]) -> list[Message]:
    """Put the items of each reply together: reasoning, then one text, then calls. What goes back begins the next."""
    groups: list[list[Message]] = []
    reached = 0
    for message in read:
        place = 2 if message.tool_calls else 1 if message.text else 0
        same = groups and groups[-1][0].role == message.role == "assistant"
        if same and (place > reached or place == reached != 1):
            groups[-1].append(message)
        else:
            groups.append([message])
        reached = place
    return [group[0] if len(group) == 1 else _joined(group) for group in groups]


def _joined(items: list[Message]) -> Message:
    return Message(
        "assistant",
        "".join([item.text for item in items]),
        "\n".join([item.reasoning for item in items if item.reasoning]),
        tuple([call for item in items for call in item.tool_calls]),
    )


def _one_system(instructions: str, messages: list[Message]) -> tuple[Message, ...]:
    count = next((place for place, message in enumerate(messages) if message.role != "system"), len(messages))
    texts = [text for text in (instructions, *(message.text for message in messages[:count])) if text]
    system = [Message("system", "\n\n".join(texts))] if texts else []
    return (*system, *messages[count:])


def _message(item: Mapping[str, Any], where: str) -> Message:
    name = item.get("role")
    role = _ROLES.get(name) if isinstance(name, str) else None
    if role is None:
        raise BadRequest(f"{where}: role {name!r} is not supported")
    return Message(role, text_of(item.get("content"), where))


def _reasoning(item: Mapping[str, Any], where: str) -> Message:
    ours = unseal(item.get("encrypted_content"))
    return Message("assistant", "", _summary(item.get("summary"), where) if ours is None else ours)


def _summary(summary: Any, where: str) -> str:
    parts = [] if summary is None else summary
    if not isinstance(parts, list):
        raise BadRequest(f"{where}: summary is not a list of parts")
    texts: list[Any] = [part.get("text") if isinstance(part, dict) else None for part in parts]
    if not all(isinstance(text, str) for text in texts):
        raise BadRequest(f"{where}: a part of the summary has no text")
    return "\n".join(texts)


def _function_call(item: Mapping[str, Any], where: str) -> Message:
    name = joined_name(_string(item, "name", where), _string(item, "namespace", where, "") or None)
    call_id, arguments = sampled_id(_string(item, "call_id", where)), _string(item, "arguments", where, "{}")
    return Message("assistant", tool_calls=(ToolCall(call_id, name, arguments),))


def _custom_call(item: Mapping[str, Any], where: str) -> Message:
    name = joined_name(_string(item, "name", where), _string(item, "namespace", where, "") or None)
    call = CustomCall(_string(item, "call_id", where), _string(item, "input", where))
    return Message("assistant", tool_calls=(ToolCall(sampled_id(call.call_id), name, to_arguments(call)),))


def _output(item: Mapping[str, Any], where: str) -> Message:
    call_id = sampled_id(_string(item, "call_id", where, ""))
    return Message("tool", text_of(item.get("output"), where), "", (), call_id)


def _string(item: Mapping[str, Any], name: str, where: str, default: str | None = None) -> str:
    value = item.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, str):
        raise BadRequest(f"{where}: {name} is not a string")
    return value


_ITEMS: dict[str, Callable[[Mapping[str, Any], str], Message]] = {
    "message": _message,
    "reasoning": _reasoning,
    "function_call": _function_call,
    "function_call_output": _output,
    "custom_tool_call": _custom_call,
    "custom_tool_call_output": _output,
}

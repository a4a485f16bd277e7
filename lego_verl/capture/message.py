"""Messages as capture sees them: no protocol's shape, only what a chat template can render."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import orjson

Role = Literal["system", "user", "assistant", "tool"]
Origin = Literal["main", "subagent", "side_call"]
"""Who asks: the agent itself, one that it started, or the harness for a purpose of its own."""
Tool = Mapping[str, Any]
"""A tool as OpenAI declares it: ``{"type": "function", "function": {"name", "description", "parameters"}}``."""


class ToolCall(NamedTuple):
    """A call of a tool. ``arguments`` is the raw string, as it was sampled or as a harness sent it back."""

    id: str
    name: str
    arguments: str


class Message(NamedTuple):
    """One message. A tuple, since a request makes hundreds of them and compares them all."""

    role: Role
    text: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str = ""


@dataclass(frozen=True)
class Request:
    """What a harness asks for, whatever protocol it speaks."""

    messages: tuple[Message, ...]
    tools: Sequence[Tool] = ()
    origin: Origin = "main"
    """Who asks, where a harness says so by a header."""


def parsed_arguments(arguments: str) -> Any:
    """Arguments as a chat template wants them: an object where they are one, else the string itself."""
    try:
        value = orjson.loads(arguments)
        # A value too deep to be written again would break the template, far from its cause.
        orjson.dumps(value)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return arguments
    return value if isinstance(value, dict) else arguments


def template_message(message: Message, *, objects: bool = True) -> dict[str, Any]:
    """The dictionary that Hugging Face chat templates read; ``objects`` parses the arguments of tool calls."""
    rendered: dict[str, Any] = {"role": message.role, "content": message.text}
    if message.reasoning:
        rendered["reasoning_content"] = message.reasoning
    if message.tool_calls:
        rendered["tool_calls"] = [
            {
                "type": "function",
                "id": call.id,
                "function": {
                    "name": call.name,
                    "arguments": parsed_arguments(call.arguments) if objects else call.arguments,
                },
            }
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        rendered["tool_call_id"] = message.tool_call_id
    return rendered


def in_call_order(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Put the results of parallel calls into the order of their calls: some harnesses send them as they finish."""
    ordered: list[Message] | None = None
    index = 0
    while index < len(messages):
        message = messages[index]
        index += 1
        if len(message.tool_calls) < 2:
            continue
        end = index
        while end < len(messages) and messages[end].role == "tool":
            end += 1
        if end - index > 1:
            rank = {call.id: place for place, call in enumerate(message.tool_calls)}
            results = messages[index:end]
            sorted_results = sorted(results, key=lambda result: rank.get(result.tool_call_id, len(rank)))
            if sorted_results != list(results):
                ordered = ordered or list(messages)
                ordered[index:end] = sorted_results
        index = end
    return tuple(ordered or messages)

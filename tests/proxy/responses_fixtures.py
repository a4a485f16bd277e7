"""What the tests of the Responses dialect share: bodies of requests, and streams read strictly."""

from __future__ import annotations

import json
from typing import Any

from openai.types.responses import Response, ResponseStreamEvent
from pydantic import TypeAdapter

from lego_verl.proxy.budget import Budget

PATH = "/v1/responses"
BUDGET = Budget(context=100_000)
CALL = {"name": "bash", "arguments": {"command": "ls"}}
BASH = {
    "type": "function",
    "name": "bash",
    "description": "Run a command.",
    "strict": False,
    "parameters": {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]},
}
PATCH = {
    "type": "custom",
    "name": "apply_patch",
    "description": "Edit files.",
    "format": {"type": "grammar", "syntax": "lark", "definition": "start: patch"},
}
AGENTS = {
    "type": "namespace",
    "name": "agents",
    "description": "Sub-agents.",
    "tools": [{"type": "function", "name": "spawn", "parameters": {"type": "object", "properties": {}}}],
}

_EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)


def ask(*items: dict[str, Any], **options: Any) -> dict[str, Any]:
    return {"model": "policy", "instructions": "S", "input": [said(), *items], "store": False, **options}


def said(text: str = "Fix it.", role: str = "user") -> dict[str, Any]:
    kind = "output_text" if role == "assistant" else "input_text"
    return {"type": "message", "role": role, "content": [{"type": kind, "text": text}]}


def result(call: dict[str, Any], output: Any = "out") -> dict[str, Any]:
    return {"type": f"{call['type']}_output", "call_id": call["call_id"], "output": output}


def read_events(raw: bytes) -> list[dict[str, Any]]:
    """The events of a stream, each checked against the official client's types."""
    events = []
    for block in raw.decode().split("\n\n")[:-1]:
        if block.startswith(":"):
            continue
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        if event["type"] != "response.failed":  # its types list the vendor's own error codes
            _EVENT.validate_python(event)
        events.append(event)
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    return events


def read_response(wire: dict[str, Any]) -> dict[str, Any]:
    """A whole response, checked against the official client's types."""
    Response.model_validate(wire)
    return wire

"""A reply as Anthropic's content blocks, whole and in the pieces of a stream."""

from __future__ import annotations

import hashlib
from typing import Any

import orjson

from lego_verl.capture.message import Message
from lego_verl.proxy.dialects.messages_history import UNPARSED


def content_blocks(message: Message) -> list[dict[str, Any]]:
    blocks: list[dict[str, Any]] = []
    if message.reasoning:
        signature = sign(message.reasoning)
        blocks.append({"type": "thinking", "thinking": message.reasoning, "signature": signature})
    if message.text:
        blocks.append({"type": "text", "text": message.text})
    blocks.extend(
        {"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call.arguments)}
        for call in message.tool_calls
    )
    return blocks


def streamed(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """A block as it starts, and what is then added to it."""
    if block["type"] == "thinking":
        thought = {"type": "thinking_delta", "thinking": block["thinking"]}
        signed = {"type": "signature_delta", "signature": block["signature"]}
        return {**block, "thinking": "", "signature": ""}, [thought, signed]
    if block["type"] == "text":
        return {**block, "text": ""}, [{"type": "text_delta", "text": block["text"]}]
    written = orjson.dumps(block["input"]).decode()
    return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": written}]


def sign(reasoning: str) -> str:
    """Clients send reasoning back only with a signature. Nobody checks it here: what was sampled is known."""
    return f"lego1.{hashlib.sha256(reasoning.encode()).hexdigest()[:32]}"


def _input(arguments: str) -> Any:
    """Arguments as the object that they are, spelt as they were sampled."""
    try:
        is_object = isinstance(orjson.loads(arguments), dict)
    except orjson.JSONDecodeError:
        is_object = False
    # An endpoint's may be none; and some, such as NaN, are JSON to Python's parser and to no other.
    return orjson.Fragment(arguments) if is_object else {UNPARSED: {"raw": arguments, "len": len(arguments)}}

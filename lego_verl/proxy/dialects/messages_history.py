"""Anthropic's messages and content blocks, from the wire to messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson

from lego_verl.capture.message import Message, ToolCall
from lego_verl.proxy.dialects.json_body import not_too_many
from lego_verl.proxy.errors import BadRequest

UNPARSED = "__unparsedToolInput"
"""The member under which a harness keeps tool input that is no JSON object, in ``raw``."""


def read_history(system: Any, wire: Any, deferred: Mapping[str, str]) -> tuple[Message, ...]:
    """Read ``system`` and ``messages``. ``deferred`` are definitions of tools by name, see ``Tools``.

    Raises:
        BadRequest: naming the message.
    """
    messages = []
    if system is not None and (text := _text(system, "system")):
        messages.append(Message("system", text))
    if not isinstance(wire, list):
        raise BadRequest("messages: Input should be a valid list")
    if not wire:
        raise BadRequest("messages: at least one message is required")
    not_too_many(wire)
    for index, message in enumerate(wire):
        where = f"messages.{index}"
        if not isinstance(message, dict):
            raise BadRequest(f"{where}: Input should be an object")
        role, content = message.get("role"), message.get("content")
        if role == "user":
            messages.extend(_user(content, where, deferred))
        elif role == "assistant":
            messages.append(_assistant(content, where))
        elif role == "system":
            messages.append(Message("system", _text(content, where)))
        else:
            raise BadRequest(f"{where}: role {role!r} is not supported")
    return tuple(messages)


def _user(content: Any, where: str, deferred: Mapping[str, str]) -> list[Message]:
    """The results of tools, then what the user says: the order in which a chat template can render them."""
    if isinstance(content, str):
        return [Message("user", content)]
    results, texts = [], []
    for block, kind in _blocks(content, where):
        if kind == "tool_result":
            results.append(_result(block, where, deferred))
        else:
            texts.append(_block_text(block, kind, where))
    if results and not any(texts):
        return results
    return [*results, Message("user", _joined(texts))]


def _result(block: dict[str, Any], where: str, deferred: Mapping[str, str]) -> Message:
    call_id, content = block.get("tool_use_id"), block.get("content")
    if not isinstance(call_id, str):
        raise BadRequest(f"{where}: a tool_result has no tool_use_id")
    if content is None or isinstance(content, str):
        text = content or ""
    else:
        texts = []
        for part, kind in _blocks(content, f"{where}: tool_result"):
            if kind == "tool_reference" and isinstance(name := part.get("tool_name"), str):
                texts.append(deferred.get(name, name))
            else:
                texts.append(_block_text(part, kind, f"{where}: tool_result"))
        text = _joined(texts)
    if not text and block.get("is_error") is True:
        text = "error"  # chat templates know no failed result; harnesses say it in the text, if there is one
    return Message("tool", text, "", (), call_id)


def _assistant(content: Any, where: str) -> Message:
    if isinstance(content, str):
        return Message("assistant", content)
    texts, reasoning, calls = [], [], []
    for block, kind in _blocks(content, where):
        if kind == "thinking":
            # Whatever its signature: another policy may have sampled it.
            thought = block.get("thinking")
            if not isinstance(thought, str) or not isinstance(block.get("signature", ""), str | None):
                raise BadRequest(f"{where}: a thinking block needs thinking and a signature, both strings")
            reasoning.append(thought)
        elif kind == "tool_use":
            calls.append(_call(block, where))
        elif kind != "redacted_thinking":  # of another policy, and nobody here can read it
            texts.append(_block_text(block, kind, where))
    return Message("assistant", _joined(texts), _joined(reasoning), tuple(calls))


def _call(block: dict[str, Any], where: str) -> ToolCall:
    call_id, name, given = block.get("id"), block.get("name"), block.get("input")
    if not isinstance(call_id, str) or not isinstance(name, str):
        raise BadRequest(f"{where}: a tool_use needs an id and a name, both strings")
    if not isinstance(given, dict):
        raise BadRequest(f"{where}: the input of a tool_use is not an object")
    unparsed = given.get(UNPARSED)
    if len(given) == 1 and isinstance(unparsed, dict) and isinstance(raw := unparsed.get("raw"), str):
        return ToolCall(call_id, name, raw)
    try:
        return ToolCall(call_id, name, orjson.dumps(given).decode())
    except orjson.JSONEncodeError as error:  # too deep: it would break the chat template, far from its cause
        raise BadRequest(f"{where}: the input of a tool_use cannot be written as JSON: {error}") from error


def _text(content: Any, where: str) -> str:
    if isinstance(content, str):
        return content
    return _joined([_block_text(block, kind, where) for block, kind in _blocks(content, where)])


def _blocks(content: Any, where: str) -> list[tuple[dict[str, Any], str]]:
    """Content blocks, each with its type."""
    if not isinstance(content, list):
        raise BadRequest(f"{where}: content is neither a string nor a list of blocks")
    found = []
    for block in content:
        kind = block.get("type") if isinstance(block, dict) else None
        if not isinstance(kind, str):
            raise BadRequest(f"{where}: a content block has no type")
        found.append((block, kind))
    return found


def _block_text(block: dict[str, Any], kind: str, where: str) -> str:
    """Text of a text block; what is no text is refused by its name."""
    if kind != "text":
        raise BadRequest(f"{where}: a content block of type {kind!r} is not supported here: text only")
    text = block.get("text")
    if not isinstance(text, str):
        raise BadRequest(f"{where}: a text block has no text")
    return text


def _joined(texts: list[str]) -> str:
    return "\n".join(text for text in texts if text)

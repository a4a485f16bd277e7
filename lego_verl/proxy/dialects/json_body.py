"""Reading JSON that may be anything."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import orjson

from lego_verl.proxy.errors import BadRequest

_TEXT_PARTS = ("text", "input_text", "output_text", "refusal")
_MOST = 50_000
"""Messages of a request. No harness comes near it, and a million would hold up every other session for seconds."""


def read_object(body: bytes) -> dict[str, Any]:
    """Parse a body that has to be a JSON object.

    Half of a surrogate pair, as Python's json writes undecodable bytes of a tool's output, is not valid Unicode and
    no tokenizer takes it; it is replaced, as terminals do.

    Raises:
        BadRequest: when it is not one.
    """
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        if b"\\ud" not in body and b"\\uD" not in body:
            raise BadRequest(f"the body is not JSON: {error}") from error
        try:
            value = orjson.loads(json.dumps(json.loads(body), ensure_ascii=False).encode("utf-8", "replace"))
        except (ValueError, RecursionError):
            raise BadRequest(f"the body is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise BadRequest("the body is not a JSON object")
    return value


def field(wire: Mapping[str, Any], name: str, kind: type, default: Any) -> Any:
    """A member of the wanted type, or the default where it is missing or null.

    Raises:
        BadRequest: when it has another type. (A bool is no int here.)
    """
    value = wire.get(name)
    if value is None:
        return default
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise BadRequest(f"{name} is not of type {kind.__name__}")
    return value


def not_too_many(messages: list[Any]) -> None:
    """Raise ``BadRequest`` for a list of messages that no conversation has."""
    if len(messages) > _MOST:
        raise BadRequest(f"{len(messages)} messages are too many: at most {_MOST}")


def text_of(content: Any, where: str) -> str:
    """Text, or that of a list of parts, as both of OpenAI's protocols have them.

    Raises:
        BadRequest: naming what is no text.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise BadRequest(f"{where}: content is neither text nor a list of parts")
    texts = []
    for part in content:
        if isinstance(part, str):
            texts.append(part)
            continue
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in _TEXT_PARTS:
            raise BadRequest(f"{where}: a content part of type {kind!r} is not supported: text only")
        text = part.get("refusal" if kind == "refusal" else "text")
        if not isinstance(text, str):
            raise BadRequest(f"{where}: a content part has no text")
        texts.append(text)
    return "\n".join(text for text in texts if text)

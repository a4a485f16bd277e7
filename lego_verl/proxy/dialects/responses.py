"""OpenAI's Responses, as far as it keeps nothing on the server: every request brings its whole conversation."""

from __future__ import annotations

import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import orjson

from lego_verl.capture.message import Request
from lego_verl.capture.session import chat_call_id
from lego_verl.proxy.dialects.chat import ChatCompletions
from lego_verl.proxy.dialects.json_body import field, read_object
from lego_verl.proxy.dialects.origin import read_origin
from lego_verl.proxy.dialects.responses_input import read_input
from lego_verl.proxy.dialects.responses_output import Event, item_events, output_items
from lego_verl.proxy.dialects.responses_tools import read_toolbox
from lego_verl.proxy.errors import BadRequest, ProxyError
from lego_verl.proxy.exchange import Answer, Ask
from lego_verl.proxy.known import Known

_SAMPLING = ("temperature", "top_p", "parallel_tool_calls", "max_tool_calls", "truncation", "service_tier")
"""Recorded: the trainer's sampling rules."""

_KEPT_ON_A_SERVER = ("previous_response_id", "conversation", "prompt", "background")
"""What a server that stores nothing cannot honour."""


class Responses:
    """``POST /v1/responses``, whole and streamed."""

    keepalive = b": generating\n\n"

    def read(self, body: bytes, headers: Mapping[str, str], known: Known | None = None) -> Ask:
        wire = read_object(body)
        _refuse(wire)
        limit = field(wire, "max_output_tokens", int, None)
        if limit is not None and limit < 1:
            raise BadRequest(f"max_output_tokens is {limit}: at least 1 is needed")
        toolbox = read_toolbox(wire.get("tools"))
        tools = toolbox.tools if wire.get("tool_choice") != "none" else ()
        messages = read_input(field(wire, "instructions", str, None) or "", wire.get("input"))
        sampling = _recorded(wire)
        if toolbox.dropped:
            sampling["dropped_tools"] = list(toolbox.dropped)
        return Ask(
            request=Request(messages, tools, read_origin(headers)),
            model=field(wire, "model", str, None) or "policy",
            stream=bool(field(wire, "stream", bool, False)),
            include_usage=True,
            max_tokens=limit,
            sampling=sampling,
            wire=toolbox.offered,
        )

    def whole(self, ask: Ask, answer: Answer) -> bytes:
        return orjson.dumps(_final(ask, answer, output_items(answer, ask.wire)))

    def events(self, ask: Ask, answer: Answer) -> Iterable[bytes]:
        return _written(self._events(ask, answer))

    def _events(self, ask: Ask, answer: Answer) -> Iterator[Event]:
        items = output_items(answer, ask.wire)
        begun = _response(f"resp_{answer.id}", answer.created, ask.model, "in_progress")
        yield {"type": "response.created", "response": begun}
        yield {"type": "response.in_progress", "response": begun}
        for index, item in enumerate(items):
            yield from item_events(item, index)
        final = _final(ask, answer, items)
        yield {"type": f"response.{final['status']}", "response": final}

    def error(self, error: ProxyError) -> bytes:
        # OpenAI's errors have one shape in both protocols.
        return ChatCompletions().error(error)

    def error_event(self, error: ProxyError) -> bytes:
        id, now = f"resp_{uuid.uuid4().hex}", int(time.time())
        failed = _response(id, now, "policy", "failed")
        failed["error"] = {"code": error.code or "server_error", "message": error.message}
        events = (
            {"type": "response.created", "response": _response(id, now, "policy", "in_progress")},
            {"type": "response.failed", "response": failed},
        )
        return b"".join(_written(events))

    def mint(self) -> str:
        return chat_call_id()


def _refuse(wire: Mapping[str, Any]) -> None:
    """Refuse by name what cannot be honoured: silence would be a reply to another question."""
    for name in _KEPT_ON_A_SERVER:
        if wire.get(name):
            raise BadRequest(f"{name} is not supported: nothing is stored, every request brings its whole input")
    if wire.get("context_management"):
        raise BadRequest("context_management is not supported: the harness compacts its own context")
    if wire.get("top_logprobs") or "message.output_text.logprobs" in (field(wire, "include", list, None) or ()):
        raise BadRequest("logprobs is not supported: they are the trainer's")
    choice = wire.get("tool_choice")
    if choice not in (None, "auto", "none"):
        raise BadRequest(f"tool_choice={choice!r} is not supported: the policy chooses (auto)")
    form = (field(wire, "text", dict, None) or {}).get("format")
    if form is not None and (not isinstance(form, dict) or form.get("type") not in (None, "text")):
        raise BadRequest("text.format other than text is not supported")


def _recorded(wire: Mapping[str, Any]) -> dict[str, Any]:
    """What the harness would have liked."""
    reasoning, text = wire.get("reasoning"), wire.get("text")
    wished = {name: wire.get(name) for name in _SAMPLING}
    wished["reasoning_effort"] = reasoning.get("effort") if isinstance(reasoning, dict) else None
    wished["verbosity"] = text.get("verbosity") if isinstance(text, dict) else None
    return {name: value for name, value in wished.items() if isinstance(value, str | int | float)}


def _response(id: str, created: int, model: str, status: str) -> dict[str, Any]:
    return {
        "id": id,
        "object": "response",
        "created_at": created,
        "status": status,
        "model": model,
        "output": [],
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "max_output_tokens": None,
        "metadata": {},
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "store": False,
        "tool_choice": "auto",
        "tools": [],
        "usage": None,
    }


def _final(ask: Ask, answer: Answer, items: list[dict[str, Any]]) -> dict[str, Any]:
    cut = answer.finish == "length"
    response = _response(f"resp_{answer.id}", answer.created, ask.model, "incomplete" if cut else "completed")
    if cut:
        response["incomplete_details"] = {"reason": "max_output_tokens"}
    response["output"] = items
    response["max_output_tokens"] = ask.max_tokens
    response["usage"] = {
        "input_tokens": answer.prompt_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": answer.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": answer.prompt_tokens + answer.completion_tokens,
    }
    return response


def _written(events: Iterable[Event]) -> Iterator[bytes]:
    for number, event in enumerate(events):
        data = orjson.dumps({**event, "sequence_number": number})
        yield b"event: " + event["type"].encode() + b"\ndata: " + data + b"\n\n"

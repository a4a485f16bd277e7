"""OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from lego_verl.capture.message import Request
from lego_verl.capture.session import chat_call_id
from lego_verl.proxy.dialects.chat_messages import read_messages, read_tools
from lego_verl.proxy.dialects.json_body import field, read_object
from lego_verl.proxy.dialects.origin import read_origin
from lego_verl.proxy.errors import BadRequest, ProxyError
from lego_verl.proxy.exchange import Answer, Ask
from lego_verl.proxy.known import Known

_SAMPLING = (
    "temperature", "top_p", "top_k", "min_p", "seed", "frequency_penalty", "presence_penalty",
    "repetition_penalty", "parallel_tool_calls", "reasoning_effort",
)  # fmt: skip
"""Recorded: the trainer's sampling rules."""

_KINDS = {400: "invalid_request_error", 401: "authentication_error", 403: "permission_error", 404: "not_found_error",
          405: "invalid_request_error", 413: "invalid_request_error", 429: "rate_limit_error"}  # fmt: skip


class ChatCompletions:
    """``POST /v1/chat/completions``, whole and streamed."""

    keepalive = b": generating\n\n"

    def read(self, body: bytes, headers: Mapping[str, str], known: Known | None = None) -> Ask:
        wire = read_object(body)
        _refuse(wire)
        options = field(wire, "stream_options", dict, None) or {}
        limits = [field(wire, name, int, None) for name in ("max_tokens", "max_completion_tokens")]
        limit = min((value for value in limits if value is not None), default=None)
        if limit is not None and limit < 1:
            raise BadRequest(f"max_tokens is {limit}: at least 1 is needed")
        tools = read_tools(wire.get("tools")) if wire.get("tool_choice") != "none" else ()
        return Ask(
            request=Request(read_messages(wire.get("messages"), known), tools, read_origin(headers)),
            model=field(wire, "model", str, None) or "policy",
            stream=bool(field(wire, "stream", bool, False)),
            include_usage=bool(options.get("include_usage")),
            max_tokens=limit,
            stop=_stop(wire.get("stop")),
            sampling={name: wire[name] for name in _SAMPLING if isinstance(wire.get(name), int | float | str)},
        )

    def whole(self, ask: Ask, answer: Answer) -> bytes:
        message = answer.message
        wire: dict[str, Any] = {"role": "assistant", "content": message.text}
        if message.reasoning:
            wire["reasoning_content"] = message.reasoning
        if message.tool_calls:
            wire["content"] = message.text or None
            wire["tool_calls"] = _tool_calls(answer)
        choice = {"index": 0, "message": wire, "logprobs": None, "finish_reason": answer.finish}
        return orjson.dumps({**_envelope(ask, answer, "chat.completion"), "choices": [choice], "usage": _usage(answer)})

    def events(self, ask: Ask, answer: Answer) -> Iterable[bytes]:
        message = answer.message
        envelope = _envelope(ask, answer, "chat.completion.chunk")
        if ask.include_usage:
            envelope["usage"] = None
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": None if message.tool_calls else ""}]
        if message.reasoning:
            deltas.append({"reasoning_content": message.reasoning})
        if message.text:
            deltas.append({"content": message.text})
        deltas.extend({"tool_calls": [{"index": index, **call}]} for index, call in enumerate(_tool_calls(answer)))
        for delta in deltas:
            yield _event({**envelope, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
        yield _event({**envelope, "choices": [{"index": 0, "delta": {}, "finish_reason": answer.finish}]})
        if ask.include_usage:
            yield _event({**envelope, "choices": [], "usage": _usage(answer)})
        yield b"data: [DONE]\n\n"

    def error(self, error: ProxyError) -> bytes:
        return orjson.dumps(_error(error))

    def error_event(self, error: ProxyError) -> bytes:
        return _event(_error(error)) + b"data: [DONE]\n\n"

    def mint(self) -> str:
        return chat_call_id()


def _refuse(wire: Mapping[str, Any]) -> None:
    """Refuse by name what cannot be honoured: silence would be a reply to another question."""
    if wire.get("n") not in (None, 1):
        raise BadRequest(f"n={wire['n']!r} is not supported: one reply a request")
    for name in ("functions", "function_call", "logit_bias", "audio", "prediction", "web_search_options"):
        if wire.get(name):
            raise BadRequest(f"{name} is not supported")
    if wire.get("logprobs") or wire.get("top_logprobs"):
        raise BadRequest("logprobs is not supported: they are the trainer's")
    if wire.get("modalities") not in (None, ["text"]):
        raise BadRequest("modalities other than text are not supported")
    choice = wire.get("tool_choice")
    if choice not in (None, "auto", "none"):
        raise BadRequest(f"tool_choice={choice!r} is not supported: the policy chooses (auto)")
    response_format = wire.get("response_format")
    if response_format is not None and (
        not isinstance(response_format, dict) or response_format.get("type") not in (None, "text")
    ):
        raise BadRequest("response_format other than text is not supported")


def _stop(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    strings = [value] if isinstance(value, str) else value
    if not isinstance(strings, list) or not all(isinstance(string, str) for string in strings):
        raise BadRequest("stop is neither a string nor a list of strings")
    return tuple(string for string in strings if string)


def _tool_calls(answer: Answer) -> list[dict[str, Any]]:
    return [
        {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
        for call in answer.message.tool_calls
    ]


def _envelope(ask: Ask, answer: Answer, kind: str) -> dict[str, Any]:
    return {"id": f"chatcmpl-{answer.id}", "object": kind, "created": answer.created, "model": ask.model}


def _usage(answer: Answer) -> dict[str, int]:
    return {
        "prompt_tokens": answer.prompt_tokens,
        "completion_tokens": answer.completion_tokens,
        "total_tokens": answer.prompt_tokens + answer.completion_tokens,
    }


def _event(data: Mapping[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(data) + b"\n\n"


def _error(error: ProxyError) -> dict[str, Any]:
    kind = _KINDS.get(error.status, "server_error" if error.status >= 500 else "invalid_request_error")
    return {"error": {"message": error.message, "type": kind, "param": None, "code": error.code}}

"""Anthropic's Messages."""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from lego_verl.capture.message import Request
from lego_verl.proxy.dialects.json_body import field, read_object
from lego_verl.proxy.dialects.messages_history import read_history
from lego_verl.proxy.dialects.messages_reply import content_blocks, streamed
from lego_verl.proxy.dialects.messages_tools import read_tools
from lego_verl.proxy.dialects.origin import read_origin
from lego_verl.proxy.errors import BadRequest, ProxyError
from lego_verl.proxy.exchange import Answer, Ask
from lego_verl.proxy.known import Known

_SAMPLING = (
    "temperature", "top_p", "top_k", "thinking", "output_config", "context_management", "metadata", "service_tier",
)  # fmt: skip
"""Recorded: the trainer's sampling rules."""

_KINDS = {401: "authentication_error", 402: "billing_error", 403: "permission_error", 404: "not_found_error",
          413: "request_too_large", 429: "rate_limit_error", 504: "timeout_error", 529: "overloaded_error"}  # fmt: skip

_REASONS = {"stop": "end_turn", "tool_calls": "tool_use", "length": "max_tokens"}

_OVERFLOW = re.compile(r"maximum context length is (\d+) tokens.*?(\d+) (?:input )?tokens", re.DOTALL)
"""How a proxy's and an engine's errors name the context and the prompt."""


class Messages:
    """``POST /v1/messages``, whole and streamed, and ``POST /v1/messages/count_tokens``."""

    keepalive = b'event: ping\ndata: {"type": "ping"}\n\n'

    def read(self, body: bytes, headers: Mapping[str, str], known: Known | None = None) -> Ask:
        wire = read_object(body)
        limit = field(wire, "max_tokens", int, None)
        if limit is None:
            raise BadRequest("max_tokens: Field required")
        if limit < 1:
            raise BadRequest("max_tokens: Input should be greater than or equal to 1")
        request = _request(wire, headers)
        if request.messages[-1].role == "assistant":
            raise BadRequest("assistant message prefill is not supported: a conversation must end with a user message")
        return Ask(
            request=request,
            model=field(wire, "model", str, None) or "policy",
            stream=bool(field(wire, "stream", bool, False)),
            max_tokens=limit,
            stop=_stop(wire.get("stop_sequences")),
            sampling={name: wire[name] for name in _SAMPLING if wire.get(name) is not None},
        )

    def read_count(self, body: bytes, headers: Mapping[str, str]) -> Request:
        return _request(read_object(body), headers)

    def count(self, tokens: int) -> bytes:
        return orjson.dumps({"input_tokens": tokens})

    def whole(self, ask: Ask, answer: Answer) -> bytes:
        content = {"content": content_blocks(answer.message), "usage": _usage(answer, answer.completion_tokens)}
        return orjson.dumps({**_envelope(ask, answer), **content, **_ending(ask, answer)})

    def events(self, ask: Ask, answer: Answer) -> Iterable[bytes]:
        opening: dict[str, Any] = {
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": _usage(answer, 0),
        }
        yield _event({"type": "message_start", "message": {**_envelope(ask, answer), **opening}})
        for index, block in enumerate(content_blocks(answer.message)):
            start, deltas = streamed(block)
            yield _event({"type": "content_block_start", "index": index, "content_block": start})
            for delta in deltas:
                yield _event({"type": "content_block_delta", "index": index, "delta": delta})
            yield _event({"type": "content_block_stop", "index": index})
        usage = _usage(answer, answer.completion_tokens)
        yield _event({"type": "message_delta", "delta": _ending(ask, answer), "usage": usage})
        yield _event({"type": "message_stop"})

    def error(self, error: ProxyError) -> bytes:
        return orjson.dumps(_error(error))

    def error_event(self, error: ProxyError) -> bytes:
        return _event(_error(error))

    def mint(self) -> str:
        return f"toolu_{uuid.uuid4().hex[:24]}"


def _request(wire: Mapping[str, Any], headers: Mapping[str, str]) -> Request:
    _refuse(wire)
    tools = read_tools(wire.get("tools"))
    history = read_history(wire.get("system"), wire.get("messages"), tools.deferred)
    return Request(history, () if _choice(wire) == "none" else tools.shown, read_origin(headers))


def _choice(wire: Mapping[str, Any]) -> Any:
    choice = wire.get("tool_choice")
    return choice.get("type") if isinstance(choice, dict) else choice


def _refuse(wire: Mapping[str, Any]) -> None:
    """Refuse by name what cannot be honoured: silence would be a reply to another question."""
    if _choice(wire) not in (None, "auto", "none"):
        raise BadRequest(f"tool_choice={wire['tool_choice']!r} is not supported: the policy chooses (auto)")
    for name in ("mcp_servers", "container", "output_format"):
        if wire.get(name):
            raise BadRequest(f"{name} is not supported")
    if (field(wire, "output_config", dict, None) or {}).get("format"):
        raise BadRequest("output_config.format is not supported")


def _stop(value: Any) -> tuple[str, ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(string, str) for string in value):
        raise BadRequest("stop_sequences: Input should be a valid list of strings")
    return tuple(string for string in value if string)


def _envelope(ask: Ask, answer: Answer) -> dict[str, Any]:
    return {"id": f"msg_{answer.id}", "type": "message", "role": "assistant", "model": ask.model}


def _ending(ask: Ask, answer: Answer) -> dict[str, Any]:
    # A stop string of the trainer's own is nothing that the harness knows.
    if answer.finish == "stop" and answer.stopped in ask.stop:
        return {"stop_reason": "stop_sequence", "stop_sequence": answer.stopped}
    return {"stop_reason": _REASONS[answer.finish], "stop_sequence": None}


def _usage(answer: Answer, sampled: int) -> dict[str, int]:
    return {
        "input_tokens": answer.prompt_tokens,
        "output_tokens": sampled,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": 0,
    }


def _event(data: Mapping[str, Any]) -> bytes:
    return b"event: " + data["type"].encode() + b"\ndata: " + orjson.dumps(data) + b"\n\n"


def _error(error: ProxyError) -> dict[str, Any]:
    kind = _KINDS.get(error.status, "api_error" if error.status >= 500 else "invalid_request_error")
    message = error.message
    if error.code == "context_length_exceeded":
        found = _OVERFLOW.search(message)
        message = f"prompt is too long: {f'{found[2]} tokens > {found[1]} maximum' if found else message}"
    return {"type": "error", "error": {"type": kind, "message": message}, "request_id": f"req_{uuid.uuid4().hex[:24]}"}

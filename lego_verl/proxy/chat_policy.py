"""A policy that speaks only text: the request in chat form, and its reply as a message."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from lego_verl.capture.message import Message, ToolCall, template_message
from lego_verl.policies.policy import ChatPolicy, ChatReply, PolicyError, Sampling
from lego_verl.proxy.exchange import Answer, Ask, FinishReason


async def ask_chat_policy(
    policy: ChatPolicy, ask: Ask, sampling: Sampling, *, max_tokens: int | None, mint: Callable[[], str]
) -> Answer:
    """Ask an endpoint. Usage is what it says, or 0 where it says nothing.

    Raises:
        PolicyError: when the reply is not one.
    """
    reply = await policy.reply(_body(ask, sampling, max_tokens))
    message = _message(reply, mint)
    finish: FinishReason = "tool_calls" if message.tool_calls else "stop"
    if reply.finish_reason == "length":
        finish = "length"
    return Answer(
        id=uuid.uuid4().hex,
        created=int(time.time()),
        message=message,
        finish=finish,
        prompt_tokens=int(reply.usage.get("prompt_tokens", 0)),
        completion_tokens=int(reply.usage.get("completion_tokens", 0)),
    )


def _body(ask: Ask, sampling: Sampling, max_tokens: int | None) -> dict[str, Any]:
    body: dict[str, Any] = {
        "messages": [template_message(message, objects=False) for message in ask.request.messages],
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        **sampling.extra,
    }
    if ask.request.tools:
        body["tools"] = list(ask.request.tools)
    if stop := (*sampling.stop, *ask.stop):
        body["stop"] = list(stop)
    if max_tokens is not None:
        body["max_tokens"] = max_tokens
    return body


def _message(reply: ChatReply, mint: Callable[[], str]) -> Message:
    wire = reply.message
    calls: list[ToolCall] = []
    for call in wire.get("tool_calls") or []:
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping) or not isinstance(function.get("name"), str):
            raise PolicyError("the endpoint's reply holds a tool call without a name")
        arguments = function.get("arguments")
        calls.append(ToolCall(str(call.get("id") or mint()), function["name"], str(arguments or "{}")))
    if len({call.id for call in calls}) < len(calls):
        calls = [call._replace(id=mint()) for call in calls]
    reasoning = wire.get("reasoning_content") or wire.get("reasoning") or ""
    return Message("assistant", str(wire.get("content") or ""), str(reasoning), tuple(calls))

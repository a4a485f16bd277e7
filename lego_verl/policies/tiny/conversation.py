"""Recorded conversations of a harness with a demonstrator: what a tiny policy is made from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lego_verl.capture.chatml import CHATML_TEMPLATE
from lego_verl.capture.message import Message, ToolCall
from lego_verl.capture.template import ChatTemplate

_TEMPLATE = ChatTemplate(CHATML_TEMPLATE)


@dataclass(frozen=True)
class Conversation:
    """One trial's messages and tools, exactly as the harness sent them (OpenAI's chat form), and what was right.

    The last message may be the submitting turn of the assistant, which a harness never sends back.
    """

    messages: Sequence[Mapping[str, Any]]
    tools: Sequence[Mapping[str, Any]]
    kind: str
    """The task's kind of bug: ``metadata["kind"]``."""
    module: str
    """Where it is: ``metadata["module"]``."""


def rendered(conversation: Conversation) -> str:
    """The whole conversation as the chat template writes it."""
    return _TEMPLATE.render(as_messages(conversation.messages), list(conversation.tools))


def as_messages(messages: Sequence[Mapping[str, Any] | Message]) -> list[Message]:
    """Messages of OpenAI's chat form as capture has them; those of capture stay as they are."""
    return [message if isinstance(message, Message) else _message(message) for message in messages]


def _message(message: Mapping[str, Any]) -> Message:
    content = message.get("content") or ""
    if not isinstance(content, str):
        content = "".join(part.get("text", "") for part in content)
    calls = tuple(
        ToolCall(call.get("id", ""), call["function"]["name"], call["function"]["arguments"])
        for call in message.get("tool_calls") or ()
    )
    return Message(message["role"], content, "", calls, message.get("tool_call_id") or "")

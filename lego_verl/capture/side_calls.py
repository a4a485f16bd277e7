"""Whose call it is, told by the conversation where no header tells: sub-agents and side calls.

A sub-agent begins a conversation with what a tool call that is still open handed over. A side call (a title, a
summary) asks something beside the task: its conversation is one question and one answer, and the task goes on
without the question. That shows only afterwards, when the next conversation begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from lego_verl.capture.match import difference
from lego_verl.capture.message import Message, Tool
from lego_verl.capture.segment import Segment

_HANDED_OVER = 16
"""Characters that an argument needs before it can be told again in a prompt: shorter ones are names and flags."""


def is_subagent(messages: Sequence[Message], segments: Iterable[Segment]) -> bool:
    """Whether ``messages`` begin what a tool call without a result asked for.

    A harness that complains about a call may repeat it, too; but it goes on with the same task.
    """
    segments = list(segments)
    if any(goes_on_from(each.messages, messages) or _same_task(each.messages, messages) for each in segments):
        return False
    told = "\n".join(message.text for message in messages if message.role == "user")
    for segment in segments:
        for call in segment.messages[-1].tool_calls:
            if any(text in told for text in _texts(call.arguments)):
                return True
    return False


def _texts(arguments: str) -> list[str]:
    try:
        value = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return []
    values: Iterable[Any] = value.values() if isinstance(value, dict) else ()
    texts = (each.strip() for each in values if isinstance(each, str))
    return [text for text in texts if len(text) >= _HANDED_OVER]


def is_side_call(messages: Sequence[Message], tools: Sequence[Tool], segments: Iterable[Segment]) -> bool:
    """Whether a request that offers no tools has nothing of a conversation that has some."""
    if tools:
        return False
    with_tools = [segment for segment in segments if segment.tools]
    return bool(with_tools) and not any(goes_on_from(segment.messages, messages) for segment in with_tools)


def was_side_call(segment: Segment, messages: Sequence[Message], tools: Sequence[Tool]) -> bool:
    """Whether a conversation turns out to have been one, now that ``messages`` begin another."""
    reply = segment.messages[-1]
    if len(segment.calls) != 1 or reply.tool_calls or _holds_turn(messages, reply):
        return False
    if tools and not segment.tools and not goes_on_from(segment.messages, messages):
        return True
    return _question_is_gone(segment, messages)


def ends_with_side_call(segment: Segment, messages: Sequence[Message]) -> bool:
    """Whether the last call of a longer conversation was a summary of it, which ``messages`` begin anew from."""
    reply = segment.messages[-1]
    if len(segment.calls) < 2 or reply.tool_calls or not _question_is_gone(segment, messages):
        return False
    line = max((line.strip() for line in reply.text.splitlines()), key=len, default="")
    return len(line) >= _HANDED_OVER and any(line in message.text for message in messages)


def goes_on_from(known: Sequence[Message], messages: Sequence[Message]) -> bool:
    """Whether ``messages`` hold one of the ``known`` turns."""
    return any(message.role == "assistant" and _holds_turn(messages, message) for message in known)


def _holds_turn(messages: Sequence[Message], turn: Message) -> bool:
    anchors = {call.id for call in turn.tool_calls}
    return any(
        message.role == "assistant"
        and (any(call.id in anchors for call in message.tool_calls) or difference(turn, message) is None)
        for message in messages
    )


def _same_task(known: Sequence[Message], messages: Sequence[Message]) -> bool:
    ours, theirs = (next((each.text for each in those if each.role == "user"), "") for those in (known, messages))
    return ours.strip() == theirs.strip()


def _question_is_gone(segment: Segment, messages: Sequence[Message]) -> bool:
    question = segment.messages[-2]
    asked = question.text.strip()
    return question.role == "user" and not any(asked in message.text for message in messages)

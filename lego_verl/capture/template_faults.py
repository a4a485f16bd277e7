"""What a chat template does to a conversation that goes on, in words: the ways in which templates fail to only add.

``append_only`` proves that a template only adds; here stands what to tell a person when it does not.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from lego_verl.capture.message import Message, Tool, ToolCall
from lego_verl.capture.template import ChatTemplate, TemplateError

THINKING = re.compile(r"<think>.*?</think>\s*", re.DOTALL)
"""Reasoning that a template may remove from earlier turns: a sampled turn is never rendered again."""
_DIGITS = re.compile(r"\d+")
_CALL = ToolCall("call_probe", "probe", '{"a": 1}')
_SYSTEM = Message("system", "probe system alpha")
_CONVERSATION = [
    Message("user", "probe question bravo"),
    Message("assistant", "probe answer charlie"),
    Message("user", "probe question delta"),
    Message("assistant", "probe answer echo", tool_calls=(_CALL,)),
    Message("tool", "probe result foxtrot", tool_call_id=_CALL.id),
    Message("assistant", "probe answer golf"),
    Message("user", "probe question hotel"),
]
_NO_TOOLS: tuple[Tool, ...] = ()


def fault_of(template: ChatTemplate, tools: Sequence[Tool]) -> str:
    """What a template does beside adding, as a clause that begins with "it"; empty where nothing is seen.

    Args:
        tools: some to offer: what the template does with them may be the fault.
    """
    conversation = _accepted(template)
    for offered in (_NO_TOOLS, tools):
        template.reads_clock = False
        for end in range(len(conversation) - len(_CONVERSATION) + 1, len(conversation)):
            try:
                before = template.render(conversation[:end], offered)
                after = template.render(conversation[: end + 1], offered)
            except TemplateError:  # it refuses such a conversation, so none will ever have that shape
                continue
            if template.reads_clock:
                return "it writes the current date or time; fix it by an option of the template, if it takes one"
            before, after = THINKING.sub("", before), THINKING.sub("", after)
            if not after.startswith(before):
                fault = (
                    "it moves the list of tools"
                    if offered
                    else _difference(before, after, conversation[:end], conversation[end])
                )
                return f"{fault} when a message of role {conversation[end].role!r} comes: {_place(before, after)}"
    return ""


def _accepted(template: ChatTemplate) -> list[Message]:
    try:
        template.render([_SYSTEM, _CONVERSATION[0]])
    except TemplateError:  # some know no system message
        return _CONVERSATION
    return [_SYSTEM, *_CONVERSATION]


def _difference(before: str, after: str, earlier: Sequence[Message], new: Message) -> str:
    for message in earlier:
        if message.text in before and message.text not in after:
            return f"it leaves out what an earlier {message.role} message said"
    was = sorted(earlier, key=lambda message: before.find(message.text))
    now = sorted(earlier, key=lambda message: after.find(message.text))
    if 0 <= after.find(new.text) < after.find(now[-1].text):
        return "it puts new messages before earlier ones"
    if was != now:
        moved = "the system message" if was[0].role == "system" else "earlier messages"
        return f"it moves {moved}"
    if _DIGITS.sub("0", after).startswith(_DIGITS.sub("0", before)):
        return "it counts messages or turns in front of them"
    return "it writes earlier messages anew"


def _place(before: str, after: str) -> str:
    """Where two renderings part, short enough for one line."""
    pairs = enumerate(zip(before, after, strict=False))
    place = next((index for index, (one, other) in pairs if one != other), min(len(before), len(after)))
    start = max(place - 12, 0)
    return f"{before[start : place + 24]!r} becomes {after[start : place + 24]!r}"

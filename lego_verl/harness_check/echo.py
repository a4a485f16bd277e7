"""How a harness echoes its history: what was sampled beside what came back with the next request."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import orjson

from lego_verl.capture.match import same_arguments
from lego_verl.capture.message import Message, ToolCall

ASPECTS = ("turn", "text", "reasoning", "ids", "arguments", "results")


def echo_of(replies: Sequence[Message], requests: Sequence[Sequence[Message]]) -> dict[str, str]:
    """For each aspect, in a word or two, what became of it: the same word for every turn, or all there are.

    Args:
        replies: what the harness was given, in one conversation.
        requests: for each reply, the messages that it answered, as their dialect reads them.
    """
    found: dict[str, set[str]] = {aspect: set() for aspect in ASPECTS}
    for reply, messages in zip(replies, requests[1:], strict=False):
        known = _known_turn(reply, messages)
        theirs = known or _last_turn(reply, messages)
        if theirs is None:
            found["turn"].add("dropped")
            continue
        later = known is not None and _known_turn(reply, requests[-1]) is None
        found["turn"].add("dropped later" if later else "kept")
        if reply.text:
            found["text"].add(_text(reply.text, theirs.text))
        if reply.reasoning:
            found["reasoning"].add(_text(reply.reasoning, theirs.reasoning))
        for aspect, word in _calls(reply.tool_calls, theirs.tool_calls):
            found[aspect].add(word)
        if len(reply.tool_calls) > 1:
            found["results"].add(_order(reply, messages))
    return {aspect: ", ".join(sorted(words)) for aspect, words in found.items() if words}


def _known_turn(reply: Message, messages: Sequence[Message]) -> Message | None:
    """The turn that has the ids of the reply's calls; of a reply without calls, the one that has its words."""
    anchors, words = {call.id for call in reply.tool_calls}, reply.text.strip()
    for turn in reversed(messages):
        if turn.role != "assistant":
            continue
        if any(call.id in anchors for call in turn.tool_calls) or (not anchors and turn.text.strip() == words):
            return turn
    return None


def _last_turn(reply: Message, messages: Sequence[Message]) -> Message | None:
    """The latest turn, if it makes the same calls under other ids."""
    turn = next((message for message in reversed(messages) if message.role == "assistant"), None)
    names = [call.name for call in reply.tool_calls]
    return turn if turn is not None and names and [call.name for call in turn.tool_calls] == names else None


def _text(ours: str, theirs: str) -> str:
    if ours == theirs:
        return "verbatim"
    if ours.strip() == theirs.strip():
        return "trimmed"
    return "changed" if theirs else "dropped"


def _calls(ours: Sequence[ToolCall], theirs: Sequence[ToolCall]) -> Iterable[tuple[str, str]]:
    by_id = {call.id: call for call in theirs}
    for place, call in enumerate(ours):
        sent = by_id.get(call.id)
        yield "ids", "kept" if sent is not None else "changed"
        sent = sent or (theirs[place] if place < len(theirs) else None)
        if sent is None:
            yield "arguments", "dropped"
        elif sent.name != call.name:
            yield "arguments", f"of another tool: {sent.name}"
        else:
            yield "arguments", _arguments(call.arguments, sent.arguments)


def _arguments(ours: str, theirs: str) -> str:
    if ours == theirs:
        return "verbatim"
    if not same_arguments(ours, theirs):
        return "changed"
    gained = sorted(_keys(theirs) - _keys(ours))
    return f"gained {', '.join(gained)}" if gained else "rewritten"


def _keys(arguments: str) -> set[str]:
    value = orjson.loads(arguments)
    return set(value) if isinstance(value, Mapping) else set()


def _order(reply: Message, messages: Sequence[Message]) -> str:
    ids = [call.id for call in reply.tool_calls]
    results = [message.tool_call_id for message in messages if message.tool_call_id in ids]
    if results == ids:
        return "in the calls' order"
    return "in another order" if sorted(results) == sorted(ids) else "not one a call"

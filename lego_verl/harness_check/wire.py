"""What a harness says on the wire, from the requests that were heard."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

from lego_verl.capture.message import Message
from lego_verl.harness_check.echo import echo_of
from lego_verl.harness_check.watch import Heard
from lego_verl.proxy.dialects.registry import dialects
from lego_verl.proxy.exchange import Ask

_NAMES = {"/chat/completions": "chat", "/messages": "messages", "/responses": "responses"}
_WHO = ("x-claude-code-agent-id", "x-codex-turn-metadata", "thread-id", "x-session-id")
"""Headers that say who asks."""


def read_ask(heard: Heard) -> Ask | None:
    """A request that was heard, as its dialect reads it; None for one that is none of the model's.

    Raises:
        BadRequest: when the dialect refuses it.
    """
    dialect = dialects().get(heard.path)
    return None if dialect is None else dialect.read(heard.body, heard.headers)


def wire_of(heard: Sequence[Heard]) -> dict[str, Any]:
    """The dialect, and what the first request with tools holds; what else was asked for."""
    asked = [(each, ask) for each in heard if each.status == 200 and (ask := read_ask(each)) is not None]
    spoken = sorted({_NAMES[each.path] for each, _ in asked})
    # HEAD and GET have no place in a script: whatever they ask, the agent's work goes on.
    other = sorted({f"{each.method} {each.path}" for each in heard if each.path not in _NAMES})
    wire: dict[str, Any] = {"dialects": spoken, "other_requests": other}
    first = next(((each, ask) for each, ask in asked if ask.request.tools), asked[0] if asked else None)
    if first is None:
        return wire
    each, ask = first
    return {
        **wire,
        "stream": ask.stream,
        "fields": sorted(orjson.loads(each.body)),
        # What is no number may hold an id of this run.
        "sampling": {key: value for key, value in ask.sampling.items() if isinstance(value, int | float)},
        "max_tokens": ask.max_tokens,
        "who": sorted(name for name in _WHO if name in each.headers),
        "roles": [message.role for message in ask.request.messages],
        "tools": {tool["function"]["name"]: _digest(tool) for tool in ask.request.tools},
    }


def echo_heard(replies: Sequence[Message], answered: Sequence[Heard]) -> dict[str, str]:
    """``echo_of`` for one conversation: its replies in order, and the requests that were answered with them."""
    asks = [ask for each in answered if (ask := read_ask(each)) is not None]
    echo = echo_of(replies, [ask.request.messages for ask in asks])
    if any(each.path == "/messages" for each in answered) and "arguments" in echo:
        # This protocol holds an object, not a string: how it was spelt cannot come back.
        words = set(echo["arguments"].split(", ")) - {"rewritten", "verbatim"} | {"as an object"}
        echo["arguments"] = ", ".join(sorted(words))
    return echo


def _digest(tool: Mapping[str, Any]) -> str:
    """A harness that says something else about a tool offers another one."""
    return hashlib.sha256(orjson.dumps(tool, option=orjson.OPT_SORT_KEYS)).hexdigest()[:8]

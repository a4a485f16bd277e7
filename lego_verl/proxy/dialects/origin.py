"""Who asks, where a harness says so in a header."""

from __future__ import annotations

from collections.abc import Mapping

import orjson

from lego_verl.capture.message import Origin

_SUBAGENT_HEADERS = ("x-claude-code-agent-id", "x-codex-parent-thread-id", "x-parent-session-id")
_AGENT_HEADERS = (*_SUBAGENT_HEADERS, "thread-id", "x-session-id")
_TURN_HEADER = "x-codex-turn-metadata"
"""A JSON object that says, among other things, what kind of request it is."""


def read_origin(headers: Mapping[str, str]) -> Origin:
    """The agent itself, unless a header names another or another purpose."""
    if _kind_of_turn(headers.get(_TURN_HEADER, "")) == "compaction":
        return "side_call"
    return "subagent" if any(headers.get(name) for name in _SUBAGENT_HEADERS) else "main"


def agent_of(headers: Mapping[str, str]) -> str:
    """What tells the agents of one trial apart: two of them may ask the very same, and are not each other's retry."""
    return "\0".join(headers.get(name, "") for name in _AGENT_HEADERS)


def _kind_of_turn(header: str) -> str:
    try:
        value = orjson.loads(header)
    except orjson.JSONDecodeError:
        return ""
    return str(value.get("request_kind", "")) if isinstance(value, dict) else ""

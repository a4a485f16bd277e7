"""Who asks, where a harness says so in a header."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

_SUBAGENT_HEADERS = ("x-claude-code-agent-id", "x-codex-parent-thread-id", "x-parent-session-id")


def read_origin(headers: Mapping[str, str]) -> Literal["main", "subagent"]:
    return "subagent" if any(headers.get(name) for name in _SUBAGENT_HEADERS) else "main"

"""A model server whose every answer is given beforehand, and answers to give."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Answer = Mapping[str, Any] | tuple[int, str]
"""A message; or a status and a body."""


@dataclass
class ChatServer:
    """Gives its answers in turn, the last one for ever, and keeps what it was asked."""

    answers: Sequence[Answer] = ()
    url: str = ""
    bodies: list[dict[str, Any]] = field(default_factory=list)
    keys: list[str] = field(default_factory=list)

    async def handle(self, request: web.Request) -> web.Response:
        self.bodies.append(json.loads(await request.read()))
        self.keys.append(request.headers.get("Authorization", ""))
        answer = self.answers[min(len(self.bodies), len(self.answers)) - 1]
        if isinstance(answer, tuple):
            return web.Response(status=answer[0], text=answer[1], content_type="application/json")
        finish = "tool_calls" if answer.get("tool_calls") else "stop"
        return web.json_response(
            {
                "id": f"chatcmpl-{len(self.bodies)}",
                "object": "chat.completion",
                "created": 1700000000,
                "model": "policy",
                "choices": [{"index": 0, "message": {"role": "assistant", **answer}, "finish_reason": finish}],
                "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
            }
        )


def bash(command: str, call_id: str = "call_1") -> dict[str, Any]:
    """A tool call of mini's."""
    return {
        "id": call_id,
        "type": "function",
        "function": {"name": "bash", "arguments": json.dumps({"command": command})},
    }


def calls(*commands: str, content: str | None = None) -> dict[str, Any]:
    return {"content": content, "tool_calls": [bash(command, f"call_{i}") for i, command in enumerate(commands)]}


SUBMIT = calls("echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT")

"""Trials as a scripted policy leaves them, over the real proxy."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import aiohttp

from lego_verl.capture.bytelevel import byte_renderer
from lego_verl.capture.parser import HermesParser
from lego_verl.capture.record import write_recording
from lego_verl.policies.scripted import ScriptedPolicy
from lego_verl.proxy.server import ProxyServer
from lego_verl.proxy.session import Session

_TOOLS = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object"}}}]


def bash(command: str) -> dict[str, Any]:
    """A reply that runs a command."""
    return tool("bash", command=command)


def tool(name: str, **arguments: Any) -> dict[str, Any]:
    """A reply that calls a tool."""
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


def record(folder: Path, replies: Sequence[Mapping[str, Any]], outputs: Sequence[str] = ()) -> None:
    """A harness's conversation with a scripted policy, written into the trial's folder.

    Args:
        outputs: what the tool gives back to each reply; nothing where there is none.
    """
    asyncio.run(_record(folder, replies, outputs))


async def _record(folder: Path, replies: Sequence[Mapping[str, Any]], outputs: Sequence[str]) -> None:
    renderer, parser = byte_renderer(), HermesParser()
    policy = ScriptedPolicy(replies, renderer=renderer, parser=parser)
    server = ProxyServer()
    await server.start()
    session = Session("trial", policy, renderer=renderer, parser=parser)
    try:
        address = await server.open(session)
        messages: list[dict[str, Any]] = [{"role": "user", "content": "Mend it."}]
        async with aiohttp.ClientSession() as client:
            for number in range(len(replies)):
                body = {"model": "policy", "messages": messages, "tools": _TOOLS}
                async with client.post(f"{address.base_url}/v1/chat/completions", json=body) as response:
                    response.raise_for_status()
                    said = (await response.json())["choices"][0]["message"]
                messages.append(said)
                output = outputs[number] if number < len(outputs) else ""
                calls = said.get("tool_calls") or []
                messages += [{"role": "tool", "tool_call_id": call["id"], "content": output} for call in calls]
    finally:
        await server.stop()
    assert session.capture is not None
    write_recording(folder, session.capture)


def new_file(path: str, *lines: str, mode: str = "100644") -> str:
    """A patch that adds a file."""
    added = "".join(f"+{line}\n" for line in lines)
    head = f"diff --git a/{path} b/{path}\nnew file mode {mode}\nindex 0000000..1111111\n--- /dev/null\n+++ b/{path}\n"
    return f"{head}@@ -0,0 +1,{len(lines)} @@\n{added}"


def changed_file(path: str, *lines: str) -> str:
    """A patch that changes a file."""
    added = "".join(f"+{line}\n" for line in lines)
    head = f"diff --git a/{path} b/{path}\nindex 0000000..1111111 100644\n--- a/{path}\n+++ b/{path}\n"
    return f"{head}@@ -1,2 +1,{len(lines) + 1} @@\n context\n-old\n{added}"


def deleted_file(path: str) -> str:
    """A patch that deletes a file."""
    head = (
        f"diff --git a/{path} b/{path}\ndeleted file mode 100644\nindex 1111111..0000000\n--- a/{path}\n+++ /dev/null\n"
    )
    return f"{head}@@ -1 +0,0 @@\n-def test_it(): pass\n"

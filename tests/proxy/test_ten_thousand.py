"""Ten thousand hostile requests on all protocols: no server error, no cross-talk, no growth; a good one still works."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import sys
from collections import Counter
from typing import Any

import aiohttp
from proxy_fixtures import PARSER, RENDERER

from lego_verl.policies.scripted import ScriptedPolicy
from lego_verl.proxy.budget import Budget
from lego_verl.proxy.server import ProxyServer
from lego_verl.proxy.session import Session

COUNT, AT_ONCE, ROUNDS = 10_000, 16, 10
TEXTS = ["x", "", "é🐍", "\udc80", "a" * 3000, "<|im_end|>", "<tool_call>{", "\x00", "{{ 7 * 7 }}"]
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
GOOD: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": {"model": "m", "messages": [
        {"role": "system", "content": "S"}, {"role": "user", "content": "u"},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": "r"},
    ], "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]},
    "/v1/messages": {"model": "m", "max_tokens": 50, "system": "S", "messages": [
        {"role": "user", "content": "u"},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "f", "input": {"a": 1}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "r"}]},
    ], "tools": [{"name": "f", "input_schema": {"type": "object"}}]},
    "/v1/responses": {"model": "m", "instructions": "S", "store": False, "input": [
        {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "u"}]},
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "r"},
    ], "tools": [{"type": "function", "name": "f", "parameters": {"type": "object"}}]},
}  # fmt: skip


class Hostile:
    """Makes requests: (method, path under the server, body)."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(seed)

    def value(self, depth: int = 0) -> Any:
        pick = self._random.randrange(11 if depth < 4 else 8)
        if pick < 3:
            return [None, True, False, 0, -1, 2**70, 1.5, -0.0][self._random.randrange(8)]
        if pick < 8:
            return self._random.choice(TEXTS)
        if pick == 8:
            return [self.value(depth + 1) for _ in range(self._random.randrange(4))]
        names = ("type", "role", "content", "text", "id", "name", "input", "arguments", "function")
        return {self._random.choice(names): self.value(depth + 1) for _ in range(self._random.randrange(4))}

    def _places(self, value: Any, found: list[tuple[Any, Any]]) -> list[tuple[Any, Any]]:
        keys = value.keys() if isinstance(value, dict) else range(len(value)) if isinstance(value, list) else ()
        for key in keys:
            found.append((value, key))
            self._places(value[key], found)
        return found

    def request(self) -> tuple[str, str, bytes]:
        path = self._random.choice(list(GOOD))
        wire = json.loads(json.dumps(GOOD[path]))
        for _ in range(self._random.randrange(4)):
            owner, key = self._random.choice(self._places(wire, []))
            if self._random.random() < 0.2 and isinstance(owner, dict):
                del owner[key]
            elif self._random.random() < 0.1 and isinstance(owner, list):
                owner[key : key + 1] = [owner[key]] * self._random.choice([2, 200])
            else:
                owner[key] = self.value()
            if not isinstance(wire, dict) or not self._places(wire, []):
                break
        wire["stream"] = self._random.choice([True, False])
        data = bytearray(json.dumps(wire).encode())
        kind = self._random.random()
        if kind < 0.15:
            place = self._random.randrange(len(data))
            data[place : place + self._random.randrange(4)] = self._random.randbytes(self._random.randrange(4))
        elif kind < 0.2:
            data = bytearray(b"[" * 2000 + b"]" * 2000)
        method = "POST" if self._random.random() < 0.9 else self._random.choice(["GET", "PUT", "DELETE", "PATCH"])
        prefix = "/s/good" if self._random.random() < 0.9 else self._random.choice(
            ["/s/other2", "", "/s", "/s/../good", "/s/good/s/untouched", "/s/%00", "/s/" + "x" * 300]
        )  # fmt: skip
        if self._random.random() < 0.1:
            path = self._random.choice(["/v1/models", "/v1/messages/count_tokens", "/v1/nothing", "/", "/v2" + path])
        return method, prefix + path, bytes(data)


async def test_ten_thousand_hostile_requests() -> None:
    server = ProxyServer()
    await server.start()
    untouched = new_session("untouched")
    await server.open(untouched)
    hostile, statuses, blocks = Hostile(seed=20), Counter[int](), []
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=AT_ONCE)) as client:

        async def send() -> None:
            method, path, body = hostile.request()
            url = f"http://127.0.0.1:{server.port}{path}"
            async with client.request(method, url, data=body) as response:
                await response.read()
                statuses[response.status] += 1
                assert response.status < 500, (method, path, body[:2000])

        for _ in range(ROUNDS):
            session = new_session("good")
            await server.open(session)
            for _ in range(COUNT // ROUNDS // AT_ONCE):
                await asyncio.gather(*(send() for _ in range(AT_ONCE)))
            assert session.proof().holds
            async with client.post(
                f"{server.url}/s/good/v1/chat/completions", json=GOOD["/v1/chat/completions"]
            ) as good:
                assert good.status == 200
            await server.close("good")
            del session
            gc.collect()
            blocks.append(sys.getallocatedblocks())
    assert sum(statuses.values()) >= 9_900
    assert set(statuses) >= {200, 400, 404, 405}, statuses
    assert untouched.turns == 0
    assert untouched.calls == []
    # The first rounds fill what is kept for good (compiled templates, caches of the client).
    assert max(blocks[5:]) - blocks[4] < 20_000, blocks
    await server.stop()


async def test_a_million_messages() -> None:
    server = ProxyServer()
    await server.start()
    address = await server.open(new_session("trial"))
    data = b'{"messages": [' + b",".join([b'{"role":"user","content":"x"}'] * 1_000_000) + b"]}"
    async with aiohttp.ClientSession() as client:
        async with client.post(f"{address.base_url}/v1/chat/completions", data=data) as response:
            assert response.status == 400
            assert "1000000 messages are too many" in (await response.json())["error"]["message"]
        async with client.post(f"{address.base_url}/v1/messages", json=GOOD["/v1/messages"]) as response:
            assert response.status == 200
    await server.stop()


def new_session(name: str) -> Session:
    policy = ScriptedPolicy([{"text": "ok"}], renderer=RENDERER, parser=PARSER, repeat="last")
    return Session(name, policy, renderer=RENDERER, parser=PARSER, budget=Budget(context=100_000))

"""A proxy, sessions behind which a script answers, and a client."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import aiohttp
import pytest
from proxy_fixtures import PARSER, RENDERER

from lego_verl.policies.scripted import ScriptedPolicy
from lego_verl.proxy.server import ProxyServer
from lego_verl.proxy.session import Session


@pytest.fixture
async def server() -> AsyncIterator[ProxyServer]:
    server = ProxyServer(keepalive=0.1, max_body=1 << 20)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
def scripted() -> Callable[..., Session]:
    """Makes a session behind which a script answers."""

    def make(script: Any, id: str = "trial", *, repeat: Any = "none", policy: Any = None, **options: Any) -> Session:
        policy = policy or ScriptedPolicy(script, renderer=RENDERER, parser=PARSER, repeat=repeat)
        return Session(id, policy, renderer=RENDERER, parser=PARSER, **options)

    return make


@dataclass
class Reply:
    status: int
    body: bytes
    json: Any


@pytest.fixture
async def post() -> AsyncIterator[Callable[..., Awaitable[Reply]]]:
    """Posts a body to a session's address."""
    async with aiohttp.ClientSession() as client:

        async def post(base_url: str, body: Any, path: str = "/v1/chat/completions", method: str = "POST") -> Reply:
            data = {"data": body} if isinstance(body, bytes) else {"json": body}
            async with client.request(method, base_url + path, **data) as response:
                read = await response.read()
                is_json = response.content_type == "application/json"
                return Reply(response.status, read, await response.json() if is_json else None)

        yield post

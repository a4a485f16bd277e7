"""mini's real runtime and a model server."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from harness_helpers import ChatServer

from harness_adapters.mini_swe_agent import MiniSweAgent
from harness_adapters.runtime import BuiltRuntime, build_runtime, cache_folder


@pytest.fixture
async def server() -> AsyncIterator[ChatServer]:
    chat = ChatServer()
    app = web.Application(client_max_size=64 << 20)
    app.router.add_post("/v1/chat/completions", chat.handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    chat.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield chat
    await runner.cleanup()


@pytest.fixture
async def mini() -> BuiltRuntime:
    """The released package, from the cache that runs use, too."""
    return await build_runtime(MiniSweAgent().runtime, cache_folder())

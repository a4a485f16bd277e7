"""A server that makes sessions at their first use, and one that does not."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import aiohttp
import pytest
from serve_helpers import PARSER, RENDERER

from lego_verl.policies.scripted import ScriptedPolicy
from lego_verl.proxy.server import ProxyServer
from lego_verl.proxy.session import Session

BODY = {"messages": [{"role": "user", "content": "x"}]}


def new_session(name: str) -> Session:
    policy = ScriptedPolicy([{"text": "hi"}], renderer=RENDERER, parser=PARSER, repeat="last")
    return Session(name, policy, renderer=RENDERER, parser=PARSER)


@pytest.fixture
async def making() -> AsyncIterator[ProxyServer]:
    server = ProxyServer(new_session=new_session, max_sessions=3)
    await server.start()
    yield server
    await server.stop()


async def call(server: ProxyServer, path: str, method: str = "GET", body: Any = None) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as client, client.request(method, server.url + path, json=body) as response:
        return response.status, await response.json()


async def test_only_what_a_session_answers_makes_one(making: ProxyServer) -> None:
    for path in ("/s/a", "/s/a/", "/s/a/nothing", "/s/a/proof", "/s/a/v1/v1/models"):
        assert (await call(making, path))[0] == 404, path
    assert making.sessions == {}
    assert (await call(making, "/s/a/v1/models"))[0] == 200
    assert (await call(making, "/s/b/v1/chat/completions", "POST", BODY))[0] == 200
    assert list(making.sessions) == ["a", "b"]
    assert (await call(making, "/s/b/proof", "POST", BODY))[0] == 405


async def test_hostile_names_make_no_session(making: ProxyServer) -> None:
    for name in ("...", ".hidden", "a%20b", "a%00b", "x" * 129, "%C3%A9"):
        status, error = await call(making, f"/s/{name}/v1/chat/completions", "POST", BODY)
        assert (status, error["error"]["code"]) == (400, "bad_session"), name
    assert making.sessions == {}
    for number in range(5):
        status, error = await call(making, f"/s/n{number}/v1/messages", "POST", {**BODY, "max_tokens": 9})
        assert status == (200 if number < 3 else 429)
    assert (error["type"], error["error"]["type"]) == ("error", "rate_limit_error")
    assert "3 sessions" in error["error"]["message"]
    assert (await call(making, "/s/n1/v1/models"))[0] == 200
    assert len(making.sessions) == 3


async def test_a_closed_session_is_still_proved_and_is_not_made_again(making: ProxyServer) -> None:
    await call(making, "/s/a/v1/chat/completions", "POST", BODY)
    await making.close("a")
    assert (await call(making, "/s/a/proof"))[1]["calls"] == 1
    status, error = await call(making, "/s/a/v1/chat/completions", "POST", BODY)
    assert (status, error["error"]["code"]) == (401, "closed")
    assert (await call(making, "/"))[1]["sessions"][0]["ending"] == "closed"


async def test_a_server_of_trials_makes_and_shows_nothing() -> None:
    server = ProxyServer()
    await server.start()
    try:
        await server.open(new_session("trial"))
        assert (await call(server, "/s/other/v1/models"))[0] == 404
        for path in ("/", "/sessions", "/s/trial/proof"):
            assert (await call(server, path))[0] == 404
        await server.close("trial")
        assert server.sessions == {}
    finally:
        await server.stop()

"""Addresses: a socket serves its own session and nothing else."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from proxy_fixtures import body, user

from lego_verl.proxy.budget import Budget

BUDGET = Budget(context=100_000)
CHAT = "/v1/chat/completions"


async def ask(socket: Path, path: str, data: Any) -> tuple[int, Any]:
    async with (
        aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(socket))) as client,
        client.post(f"http://proxy{path}", json=data) as response,
    ):
        return response.status, await response.json()


async def test_a_socket_serves_only_its_own_session(server: Any, scripted: Any, post: Any, tmp_path: Path) -> None:
    one, two = (scripted([{"text": name}], name, repeat="last", budget=BUDGET) for name in ("one", "two"))
    sockets = [tmp_path / "1", tmp_path / "2"]
    addresses = [await server.open(session, socket=socket) for session, socket in zip((one, two), sockets, strict=True)]
    for address, name in zip(addresses, ("one", "two"), strict=True):
        assert address.socket is not None
        assert stat.S_IMODE(address.socket.stat().st_mode) == 0o666
        status, reply = await ask(address.socket, CHAT, body(user()))
        assert (status, reply["choices"][0]["message"]["content"]) == (200, name)
        assert (await ask(address.socket, f"/s/{name}{CHAT}", body(user())))[0] == 200
        assert (await post(address.base_url, body(user()))).json["choices"][0]["message"]["content"] == name
    status, reply = await ask(sockets[0], f"/s/two{CHAT}", body(user()))
    assert (status, reply["error"]["code"]) == (404, "session_not_found")
    assert (one.turns, two.turns) == (1, 1)


async def test_what_is_not_there_is_a_404_in_the_protocol_s_shape(server: Any, scripted: Any, post: Any) -> None:
    address = await server.open(scripted([{"text": "a"}], budget=BUDGET))
    root = f"http://127.0.0.1:{server.port}"
    for base, path in ((root, CHAT), (f"{root}/s/other", CHAT), (address.base_url, "/v1/embeddings"), (root, "/")):
        reply = await post(base, body(user()), path)
        assert reply.status == 404
        assert reply.json["error"]["type"] == "not_found_error"
    assert (await post(address.base_url, b"", CHAT, "GET")).status == 405
    assert (await post(address.base_url, b"", "/v1/models", "POST")).status == 405
    assert (await post(address.base_url, body(user()), "/chat/completions")).status == 200


async def test_a_closed_session_is_gone_and_stays_readable(
    server: Any, scripted: Any, post: Any, tmp_path: Path
) -> None:
    session = scripted([{"text": "a"}], budget=BUDGET)
    address = await server.open(session, socket=tmp_path / "s")
    assert (await post(address.base_url, body(user()))).status == 200
    await server.close(session.id)
    await server.close(session.id)
    assert (await post(address.base_url, body(user()))).status == 404
    with pytest.raises(aiohttp.ClientError):
        await ask(tmp_path / "s", CHAT, body(user()))
    assert session.proof().loss_tokens == 2
    await server.open(scripted([{"text": "b"}], budget=BUDGET))


async def test_ids_and_paths_that_cannot_be_served_are_refused(server: Any, scripted: Any, tmp_path: Path) -> None:
    await server.open(scripted([]))
    with pytest.raises(ValueError, match="already open"):
        await server.open(scripted([]))
    with pytest.raises(ValueError, match="letters, digits"):
        await server.open(scripted([], "../x"))
    with pytest.raises(ValueError, match="longer than 107 bytes"):
        await server.open(scripted([], "long"), socket=tmp_path / ("x" * 120))
    await server.open(scripted([], "long"))


async def test_a_body_that_is_too_large_is_refused(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"text": "a"}], budget=Budget(context=4_000_000))
    address = await server.open(session)
    reply = await post(address.base_url, body(user("x" * (2 << 20))))
    assert (reply.status, reply.json["error"]["code"]) == (413, "too_large")
    assert (await post(address.base_url, body(user()))).status == 200

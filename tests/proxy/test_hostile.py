"""Whatever is posted, the answer is no server error, and the next good request works."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from proxy_fixtures import body, user

from lego_verl.proxy.budget import Budget

BUDGET = Budget(context=100_000)
NESTED = "[" * 5_000 + "]" * 5_000

HOSTILE: dict[str, bytes] = {
    "empty": b"",
    "not json": b"{",
    "not an object": b"[1]",
    "null": b"null",
    "invalid utf-8": b'{"messages": [{"role": "user", "content": "\xff\xfe"}]}',
    "deep": NESTED.encode(),
    "deep content": f'{{"messages": [{{"role": "user", "content": {NESTED}}}]}}'.encode(),
    "deep tools": b'{"messages": [{"role": "user", "content": "x"}], "tools": [{"type": "function", "function": '
    b'{"name": "f", "parameters": ' + b'{"a":' * 700 + b"1" + b"}" * 700 + b"}}]}",
    "a surrogate and a syntax error": b'{"messages": "\\udc80"',
    "huge number": b'{"messages": [{"role": "user", "content": "x"}], "max_tokens": 1e400}',
    "long number": b'{"messages": [{"role": "user", "content": "x"}], "max_tokens": 9' + b"9" * 400 + b"}",
    "not a number": b'{"messages": [{"role": "user", "content": "x"}], "temperature": NaN}',
}  # fmt: skip

VALUES: list[Any] = [
    None,
    True,
    0,
    -1,
    2**63,
    1.5,
    "",
    "x",
    [],
    {},
    [None],
    [[]],
    {"type": "text"},
    ["x"],
    {"a": {"b": 1}},
]
CHANGED = {
    "messages": VALUES + [[value] for value in VALUES],
    "tools": VALUES + [[value] for value in VALUES] + [[{"type": "function", "function": value}] for value in VALUES],
    "stop": VALUES,
    "stream": VALUES,
    "stream_options": VALUES,
    "max_tokens": VALUES,
    "max_completion_tokens": VALUES,
    "model": VALUES,
    "n": VALUES,
    "temperature": VALUES,
    "tool_choice": VALUES,
    "response_format": VALUES,
    "logprobs": VALUES,
}
MESSAGE_KEYS = ("role", "content", "tool_calls", "tool_call_id", "reasoning_content", "function_call", "name")


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_body_that_is_no_request(name: str, server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"text": "ok"}], budget=BUDGET)
    address = await server.open(session)
    reply = await post(address.base_url, HOSTILE[name])
    assert reply.status == 400, reply.body
    assert reply.json["error"]["message"]
    assert (await post(address.base_url, body(user()))).status == 200
    assert session.turns == 1


async def test_wrong_types_everywhere(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"text": "ok"}], repeat="last", budget=BUDGET)
    address = await server.open(session)
    bodies = [{**body(user()), key: value} for key, values in CHANGED.items() for value in values]
    for role in ("system", "user", "assistant", "tool", "robot"):
        bodies += [body({"role": role, "content": "x", key: value}, user()) for key in MESSAGE_KEYS for value in VALUES]
    calls = [{"id": "c", "type": "function", "function": {"name": "f", "arguments": value}} for value in VALUES]
    bodies += [body({"role": "assistant", "tool_calls": [call]}, user()) for call in [*calls, *VALUES]]
    refused = 0
    for wire in bodies:
        reply = await post(address.base_url, wire)
        assert reply.status in (200, 400), (wire, reply.body)
        if reply.status == 400:
            refused += 1
            assert reply.json["error"]["type"] == "invalid_request_error"
    assert refused > len(bodies) / 2
    assert not session.over
    assert session.proof().holds
    assert (await post(address.base_url, body(user("good")))).status == 200


async def test_bodies_broken_at_random(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"text": "ok"}], repeat="last", budget=BUDGET)
    address = await server.open(session)
    rng = random.Random(0)
    good = json.dumps(body(user("é 🐍"), {"role": "assistant", "content": "a"}, user(), stream=False, stop=["x"]))
    for _ in range(400):
        data = bytearray(good.encode())
        for _ in range(rng.randint(1, 8)):
            place = rng.randrange(len(data))
            data[place : place + rng.randint(0, 3)] = rng.randbytes(rng.randint(0, 3))
        reply = await post(address.base_url, bytes(data))
        assert reply.status in (200, 400), (bytes(data), reply.body)
    assert session.proof().holds


async def test_many_messages_and_orphans(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"text": "ok"}], repeat="last", budget=Budget(context=1_000_000))
    address = await server.open(session)
    orphan = {"role": "tool", "tool_call_id": "nobody's", "content": "x"}
    assert (await post(address.base_url, body(orphan))).status == 200
    assert (await post(address.base_url, body(*[user("x")] * 10_000))).status == 200
    assert session.proof().holds


async def test_half_a_surrogate_is_replaced(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"text": "ok"}], budget=BUDGET)
    address = await server.open(session)
    reply = await post(address.base_url, b'{"messages": [{"role": "user", "content": "a\\udc80b"}]}')
    assert reply.status == 200
    assert session.capture.asked[0].messages[0].text == "a?b"

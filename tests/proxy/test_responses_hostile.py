"""Whatever is posted to the Responses dialect, the answer is no server error, and the next good request works."""

from __future__ import annotations

import asyncio
import copy
import json
import random
from typing import Any

import aiohttp
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from proxy_fixtures import PARSER, RENDERER
from responses_fixtures import AGENTS, BASH, PATCH, PATH, ask, said

from lego_verl.policies.scripted import ScriptedPolicy
from lego_verl.proxy.budget import Budget
from lego_verl.proxy.server import ProxyServer
from lego_verl.proxy.session import Session

BUDGET = Budget(context=1_000_000)
NESTED = "[" * 5_000 + "]" * 5_000
DEEP = '{"a":' * 700 + "1" + "}" * 700

HISTORY = [
    said("D", "developer"),
    said(),
    {"type": "reasoning", "id": "rs_1", "summary": [{"type": "summary_text", "text": "hm"}], "encrypted_content": "x"},
    said("a", "assistant"),
    {"type": "function_call", "call_id": "call_1", "name": "bash", "arguments": "{}", "namespace": "agents"},
    {"type": "custom_tool_call", "call_id": "call_2_raw", "name": "apply_patch", "input": "{}"},
    {"type": "function_call_output", "call_id": "call_1", "output": [{"type": "input_text", "text": "x"}]},
    {"type": "custom_tool_call_output", "call_id": "call_2_raw", "output": "x"},
]
GOOD: dict[str, Any] = {
    "model": "policy", "instructions": "S", "input": HISTORY, "tools": [BASH, PATCH, AGENTS, {"type": "web_search"}],
    "tool_choice": "auto", "parallel_tool_calls": True, "reasoning": {"effort": "low"}, "store": False, "stream": False,
    "include": ["reasoning.encrypted_content"], "text": {"verbosity": "low"}, "max_output_tokens": 100,
    "temperature": 1.0, "truncation": "auto", "previous_response_id": None, "metadata": {}, "top_logprobs": 0,
}  # fmt: skip

HOSTILE: dict[str, bytes] = {
    "empty": b"",
    "not an object": b"[1]",
    "invalid utf-8": b'{"input": "\xff\xfe"}',
    "deep": NESTED.encode(),
    "deep input": f'{{"input": {NESTED}}}'.encode(),
    "deep tools": f'{{"input": "x", "tools": [{{"type": "function", "name": "f", "parameters": {DEEP}}}]}}'.encode(),
    "no input": b'{"model": "policy"}',
    "empty input": b'{"input": []}',
    "huge number": b'{"input": "x", "max_output_tokens": 1e400}',
}

VALUES = st.recursive(
    st.sampled_from([None, True, 0, -1, 2**63, 1.5, "", "x", "message", "assistant", "function_call", "input_text"]),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["type", "role", "content", "text", "name", "call_id"]), inner, max_size=3),
    ),
    max_leaves=6,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Where something stands in a value, at any depth."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path] * bool(path) + [place for key, one in inner for place in places(one, (*path, key))]


PLACES = places(GOOD)


@st.composite
def junk(draw: Any) -> dict[str, Any]:
    """A good body in which up to three things are replaced by anything, or gone."""
    body = copy.deepcopy(GOOD)
    for _ in range(draw(st.integers(1, 3))):
        *path, last = draw(st.sampled_from(PLACES))
        owner: Any = body
        for key in path:
            try:
                owner = owner[key]
            except (KeyError, IndexError, TypeError):
                break
        if isinstance(owner, dict):
            if draw(st.booleans()):
                owner[str(last)] = draw(VALUES)
            else:
                owner.pop(str(last), None)
        elif isinstance(owner, list) and owner:
            owner[int(last) % len(owner) if isinstance(last, int) else 0] = draw(VALUES)
    return body


@settings(max_examples=15, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(st.lists(junk(), min_size=40, max_size=40))
def test_junk_is_never_a_server_error(bodies: list[dict[str, Any]]) -> None:
    async def run() -> None:
        server = ProxyServer()
        await server.start()
        policy = ScriptedPolicy([{"text": "ok"}], renderer=RENDERER, parser=PARSER, repeat="last")
        session = Session("trial", policy, renderer=RENDERER, parser=PARSER, budget=BUDGET)
        address = await server.open(session)
        async with aiohttp.ClientSession() as client:
            for body in [*bodies, GOOD]:
                async with client.post(address.base_url + PATH, json=body) as response:
                    assert response.status in (200, 400), (body, await response.text())
                    if response.status == 400:
                        error = (await response.json())["error"]
                        assert error["message"]
                        assert error["type"] == "invalid_request_error"
        assert response.status == 200
        assert not session.over
        assert session.proof().holds
        await server.stop()

    asyncio.run(run())


@pytest.mark.parametrize("name", HOSTILE)
async def test_a_body_that_is_no_request(name: str, server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"text": "ok"}], budget=BUDGET)
    address = await server.open(session)
    reply = await post(address.base_url, HOSTILE[name], PATH)
    assert reply.status == 400, reply.body
    assert reply.json["error"]["message"]
    assert (await post(address.base_url, GOOD, PATH)).status == 200
    assert session.turns == 1


async def test_bodies_broken_at_random(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"text": "ok"}], repeat="last", budget=BUDGET)
    address = await server.open(session)
    rng = random.Random(0)
    good = json.dumps(GOOD).encode()
    for _ in range(300):
        data = bytearray(good)
        for _ in range(rng.randint(1, 8)):
            place = rng.randrange(len(data))
            data[place : place + rng.randint(0, 3)] = rng.randbytes(rng.randint(0, 3))
        reply = await post(address.base_url, bytes(data), PATH)
        assert reply.status in (200, 400), (bytes(data), reply.body)
    assert session.proof().holds


async def test_many_items_of_one_turn(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"text": "ok"}], budget=Budget(context=10_000_000))
    address = await server.open(session)
    call = {"type": "function_call", "call_id": "c", "name": "f", "arguments": "{}"}
    reasoning = {"type": "reasoning", "summary": []}
    assert (await post(address.base_url, ask(*[reasoning] * 3_000, *[call] * 6_000), PATH)).status == 200
    assert len(session.capture.asked[0].messages) == 3

"""Whatever is posted, the answer is a reply or a 400 in the protocol's shape, and the next good request works."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
import orjson
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from proxy_fixtures import PARSER, RENDERER

from lego_verl.policies.scripted import ScriptedPolicy
from lego_verl.proxy.budget import Budget
from lego_verl.proxy.server import ProxyServer
from lego_verl.proxy.session import Session

LEAVES = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text(max_size=5)
KEYS = st.sampled_from(["type", "text", "content", "name", "input", "id", "role", "x"])
JUNK = st.recursive(LEAVES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3))


def mostly(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.integers(0, 19).flatmap(lambda number: JUNK if number == 0 else strategy)


def shaped(required: dict[str, Any], optional: dict[str, Any] | None = None) -> st.SearchStrategy[Any]:
    """Objects of this shape, most of their members as they should be."""
    fixed = {name: mostly(value) for name, value in required.items()}
    return mostly(
        st.fixed_dictionaries(fixed, optional={name: mostly(value) for name, value in (optional or {}).items()})
    )


IDS = st.sampled_from(["t1", "t2"])
TEXT = shaped({"type": st.just("text"), "text": st.text(max_size=5)}, {"cache_control": JUNK})
TEXTS = st.text(max_size=5) | st.lists(TEXT, max_size=3)
BLOCK = (
    TEXT
    | shaped({"type": st.just("thinking"), "thinking": st.text(max_size=5), "signature": st.text(max_size=5)})
    | shaped(
        {"type": st.just("tool_use"), "id": IDS, "name": st.text(max_size=3), "input": st.dictionaries(KEYS, JUNK)}
    )
    | shaped({"type": st.just("tool_result"), "tool_use_id": IDS, "content": TEXTS}, {"is_error": st.booleans()})
    | shaped({"type": st.sampled_from(["image", "document", "redacted_thinking", "server_tool_use", "tool_reference"])})
)
ROLE = st.sampled_from(["user", "assistant", "system"])
MESSAGE = shaped({"role": ROLE, "content": st.text(max_size=5) | st.lists(BLOCK, max_size=4)})
TOOL = shaped(
    {"name": st.text(max_size=3), "input_schema": st.dictionaries(KEYS, JUNK)},
    {"description": st.text(), "type": st.just("custom"), "defer_loading": st.booleans()},
)
BODY = shaped(
    {"max_tokens": st.integers(1, 5), "messages": st.lists(MESSAGE, max_size=5)},
    {
        "system": TEXTS,
        "tools": st.lists(TOOL, max_size=2),
        "stream": st.booleans(),
        "model": st.text(max_size=3),
        "stop_sequences": st.lists(st.text(max_size=2), max_size=2),
        "tool_choice": shaped({"type": st.sampled_from(["auto", "none", "any", "tool"])}),
        "output_config": shaped({"effort": st.text(max_size=3)}),
        "mcp_servers": JUNK,
        "metadata": JUNK,
    },
)
WIRE = st.one_of(BODY.map(orjson.dumps), BODY.map(orjson.dumps), BODY.map(orjson.dumps), st.binary(max_size=20))
GOOD = b'{"max_tokens": 9, "messages": [{"role": "user", "content": "x"}]}'


def nested(depth: int, template: str) -> bytes:
    return template.replace("DEEP", '{"a":' * depth + "1" + "}" * depth).encode()


DEEP_INPUT = (
    '{"max_tokens": 9, "messages": [{"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "n", '
    '"input": DEEP}]}, {"role": "user", "content": "x"}]}'
)
DEEP_TOOL = (
    '{"max_tokens": 9, "messages": [{"role": "user", "content": "x"}], "tools": [{"name": "n", "input_schema": DEEP}]}'
)


@settings(max_examples=50, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.lists(WIRE, min_size=1, max_size=8))
@example([nested(depth, template) for depth in (200, 240, 250, 252, 700, 5000) for template in (DEEP_INPUT, DEEP_TOOL)])
@example([b'{"max_tokens": 9, "messages": [{"role": "user", "content": "\\udc80"}]}', b"\xff", b"null", b""])
def test_junk_is_no_server_error(bodies: list[bytes]) -> None:
    asyncio.run(ask_all(bodies))


async def ask_all(bodies: list[bytes]) -> None:
    policy = ScriptedPolicy([{"text": "ok"}], renderer=RENDERER, parser=PARSER, repeat="last")
    session = Session("trial", policy, renderer=RENDERER, parser=PARSER, budget=Budget(context=100_000))
    server = ProxyServer()
    await server.start()
    address = await server.open(session)
    try:
        async with aiohttp.ClientSession() as client:
            for path in ("/v1/messages", "/v1/messages/count_tokens"):
                for wire in [*bodies, GOOD]:
                    async with client.post(address.base_url + path, data=wire) as response:
                        status, reply = response.status, await response.read()
                    assert status in (200, 400), (wire, reply)
                    if status == 400:
                        assert orjson.loads(reply)["error"]["type"] == "invalid_request_error"
                assert status == 200
    finally:
        await server.stop()
    assert not session.failure
    assert session.proof().holds

"""A policy known only by its text: another proxy, with a script behind it, is its endpoint."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from proxy_fixtures import body, user

from lego_verl.policies.endpoint import EndpointPolicy
from lego_verl.policies.policy import ContextOverflow, PolicyError, Sampling
from lego_verl.proxy.budget import Budget
from lego_verl.proxy.session import Session

CALL = {"name": "bash", "arguments": {"command": "ls"}}


@pytest.fixture
async def endpoint(server: Any, scripted: Any) -> AsyncIterator[Any]:
    policies: list[EndpointPolicy] = []

    async def make(script: Any, **options: Any) -> EndpointPolicy:
        behind = scripted(script, "behind", budget=Budget(context=options.pop("context", 100_000)))
        address = await server.open(behind)
        policies.append(EndpointPolicy(f"{address.base_url}/v1", model="m", api_key="k", **options))
        return policies[-1]

    yield make
    for policy in policies:
        await policy.close()


async def test_a_conversation_that_is_not_captured(server: Any, endpoint: Any, post: Any) -> None:
    policy = await endpoint([{"text": "ok", "reasoning": "hm", "tool_calls": [CALL]}, {"text": "done"}])
    session = Session("trial", policy, sampling=Sampling(temperature=0.3), budget=Budget(turns=2))
    address = await server.open(session)
    reply = (await post(address.base_url, body(user(), temperature=1.0))).json
    message = reply["choices"][0]["message"]
    assert (message["content"], message["reasoning_content"]) == ("ok", "hm")
    assert reply["choices"][0]["finish_reason"] == "tool_calls"
    tool = {"role": "tool", "tool_call_id": message["tool_calls"][0]["id"], "content": "out"}
    second = (await post(address.base_url, body(user(), message, tool))).json
    assert second["choices"][0]["message"]["content"] == "done"
    assert (await post(address.base_url, body(user("more")))).status == 401
    proof = session.proof()
    assert not proof.holds
    assert proof.note == "not captured: the endpoint returns no token ids"
    assert (proof.calls, proof.provenance, proof.context) == (2, 0.0, 0.0)
    assert proof.sampled_tokens == session.sampled_tokens > 0
    assert session.segments() == []
    assert not session.complete


async def test_the_trainer_s_sampling_is_sent(endpoint: Any, server: Any, post: Any) -> None:
    policy = await endpoint([{"text": "ok"}])
    session = Session("trial", policy, sampling=Sampling(temperature=0.3), budget=Budget(tokens=100))
    address = await server.open(session)
    await post(address.base_url, body(user(), temperature=1.0, max_tokens=500))
    behind = server._open["behind"].session
    assert behind.capture.asked[0].sampling["temperature"] == 0.3


async def test_an_overflow_and_a_fault_are_told_apart(server: Any, endpoint: Any, post: Any) -> None:
    policy = await endpoint([], context=3)
    session = Session("trial", policy)
    address = await server.open(session)
    reply = await post(address.base_url, body(user()))
    assert (reply.status, reply.json["error"]["code"]) == (400, "context_length_exceeded")
    assert session.ending == "context_overflow"


async def answering(*answers: Any) -> tuple[web.AppRunner, str, list[int]]:
    """A server that gives these answers, one after another."""
    left, seen = list(answers), []

    async def handle(request: web.Request) -> web.Response:
        seen.append(request.content_length or 0)
        status, text = left.pop(0)
        return web.Response(status=status, text=text)

    app = web.Application()
    app.router.add_route("*", "/{path:.*}", handle)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    return runner, f"http://127.0.0.1:{runner.addresses[0][1]}/v1", seen


GOOD = '{"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}], "usage": {"prompt_tokens": 1}}'


@pytest.mark.parametrize(
    ("answers", "tries", "says"),
    [
        ([(503, "busy"), (200, GOOD)], 2, None),
        ([(503, "busy"), (503, "still busy")], 2, "HTTP 503: still busy"),
        ([(401, "who are you")], 1, "HTTP 401: who are you"),
        ([(200, "<html>")], 1, "no chat completion"),
        ([(200, '{"choices": []}')], 1, "no chat completion"),
    ],
)
async def test_faults_are_tried_again_only_where_that_helps(
    answers: list[tuple[int, str]], tries: int, says: str | None
) -> None:
    runner, url, seen = await answering(*answers)
    policy = EndpointPolicy(url, model="m", attempts=2)
    try:
        if says is None:
            assert (await policy.reply({"messages": []})).message == {"content": "hi"}
        else:
            with pytest.raises(PolicyError, match=says):
                await policy.reply({"messages": []})
        assert len(seen) == tries
    finally:
        await policy.close()
        await runner.cleanup()


async def test_a_server_that_is_not_there_and_one_that_is_full() -> None:
    policy = EndpointPolicy("http://127.0.0.1:9/v1", model="m", attempts=1)
    with pytest.raises(PolicyError, match="the connection failed"):
        await policy.reply({"messages": []})
    await policy.close()
    runner, url, _ = await answering((400, "This model's maximum context length is 10 tokens."))
    policy = EndpointPolicy(url, model="m")
    with pytest.raises(ContextOverflow):
        await policy.reply({"messages": []})
    await policy.close()
    await runner.cleanup()

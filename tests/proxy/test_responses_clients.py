"""The official client against the Responses dialect: its own output items, sent back, are one segment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import openai
import pytest
from openai.types.responses import Response
from responses_fixtures import AGENTS, BASH, BUDGET, CALL, PATCH

from lego_verl.proxy.budget import Budget

TOOLS: Any = [BASH, PATCH, AGENTS, {"type": "web_search"}]
SCRIPT: list[dict[str, Any]] = [
    {"text": "ok é", "reasoning": "hm", "tool_calls": [CALL, CALL]},
    {"reasoning": "patch", "tool_calls": [{"name": "apply_patch", "arguments": {"input": "*** Begin\n"}}]},
    {"tool_calls": [{"name": "apply_patch", "arguments": {"patch": "not the parameter"}}]},
    {"tool_calls": [{"name": "agents__spawn", "arguments": {}}, {"name": "nobody", "arguments": {}}]},
    {"raw": '<tool_call>\n{"name": "bash", "argum'},
    {"text": "", "reasoning": "only thought"},
    {"text": "done"},
]
Ask = Callable[[openai.AsyncOpenAI, Any], Awaitable[Response]]


def client_of(address: Any, **options: Any) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=f"{address.base_url}/v1", api_key="k", **options)


async def create(client: openai.AsyncOpenAI, items: Any) -> Response:
    return await client.responses.create(model="policy", instructions="S", input=items, tools=TOOLS, store=False)


async def create_streamed(client: openai.AsyncOpenAI, items: Any) -> Response:
    stream = await client.responses.create(
        model="policy", instructions="S", input=items, tools=TOOLS, store=False, stream=True
    )
    last = [event async for event in stream][-1]
    assert last.type == "response.completed"
    return last.response


async def streamed(client: openai.AsyncOpenAI, items: Any) -> Response:
    async with client.responses.stream(model="policy", instructions="S", input=items, tools=TOOLS) as stream:
        text = "".join([event.delta async for event in stream if event.type == "response.output_text.delta"])
        response = await stream.get_final_response()
    assert response.output_text == text
    return response


@pytest.mark.parametrize("ask", [create, create_streamed, streamed])
async def test_a_conversation_of_its_own_items_is_one_segment(ask: Ask, server: Any, scripted: Any) -> None:
    # reasoning="strip": had it got lost on the way, a segment would begin.
    session = scripted(SCRIPT, budget=BUDGET, reasoning="strip")
    address = await server.open(session)
    items: list[Any] = [{"role": "user", "content": "Fix café."}]
    kinds = []
    async with client_of(address) as client:
        for number in range(len(SCRIPT)):
            response = await ask(client, items)
            assert response.status == "completed"
            assert response.usage is not None
            assert response.usage.input_tokens == session.calls[number].prompt_length
            assert response.usage.output_tokens == len(session.calls[number].sample.ids)
            kinds.append([item.type for item in response.output])
            items += response.output
            outputs = [
                {"type": f"{item.type}_output", "call_id": item.call_id, "output": f"out {number}"}
                for item in response.output
                if item.type in ("function_call", "custom_tool_call")
            ]
            items += outputs or [{"role": "user", "content": f"go on {number}"}]
    assert kinds == [
        ["reasoning", "message", "function_call", "function_call"],
        ["reasoning", "custom_tool_call"],
        ["custom_tool_call"],
        ["function_call", "function_call"],
        ["message"],
        ["reasoning"],
        ["message"],
    ]
    assert session.malformed == 1
    assert [str(split) for split in session.capture.splits()] == ["first"]
    proof = session.proof()
    assert proof.holds
    assert proof.untrained == {}
    assert proof.loss_tokens == session.sampled_tokens > 0


async def test_what_the_client_makes_of_a_reply(server: Any, scripted: Any) -> None:
    address = await server.open(scripted(SCRIPT, budget=BUDGET))
    async with client_of(address) as client:
        response = await create(client, "Fix it.")
        assert response.output_text == "ok é"
        reasoning, _, call, _ = response.output
        assert reasoning.type == "reasoning"
        assert [part.text for part in reasoning.summary] == ["hm"]
        assert call.type == "function_call"
        assert call.arguments == '{"command":"ls"}'
        assert [model.id async for model in client.models.list()] == ["scripted"]


async def test_the_client_reads_our_errors(server: Any, scripted: Any) -> None:
    full = await server.open(scripted([], "full", budget=Budget(context=3)))
    async with client_of(full, max_retries=0) as client:
        with pytest.raises(openai.BadRequestError) as overflow:
            await create(client, "x")
        assert overflow.value.code == "context_length_exceeded"
    late = await server.open(scripted([{"error": "gone", "delay": 0.3}], "late", budget=BUDGET))
    async with client_of(late, max_retries=0) as client:
        events = client.responses.stream(model="policy", input="x")
        async with events as stream:
            last = [event async for event in stream][-1]
        assert last.type == "response.failed"
        assert last.response.error is not None
        assert (last.response.error.code, last.response.error.message) == ("policy_failed", "gone")


async def test_litellm(server: Any, scripted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    litellm = pytest.importorskip("litellm")
    session = scripted([SCRIPT[0], {"text": "streamed é"}, {"text": "done"}], budget=BUDGET, reasoning="strip")
    address = await server.open(session)
    options = {"model": "openai/policy", "api_base": f"{address.base_url}/v1", "api_key": "k", "tools": [BASH]}

    def harness() -> None:
        items: list[Any] = [{"role": "user", "content": "Fix café."}]
        output = [item.model_dump(exclude_none=True) for item in litellm.responses(input=items, **options).output]
        calls = [item["call_id"] for item in output if item["type"] == "function_call"]
        items += [*output, *({"type": "function_call_output", "call_id": id, "output": "x"} for id in calls)]
        events = list(litellm.responses(input=items, stream=True, **options))
        assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == "streamed é"
        items += [item.model_dump(exclude_none=True) for item in events[-1].response.output]
        items.append({"role": "user", "content": "on"})
        last = litellm.responses(input=items, **options)
        assert last.usage.input_tokens == session.calls[2].prompt_length

    # litellm's own client is synchronous here, as it is in harnesses.
    await asyncio.to_thread(harness)
    assert len(session.segments()) == 1
    assert session.proof().holds

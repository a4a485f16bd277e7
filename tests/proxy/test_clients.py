"""The clients that harnesses use, unmodified, against the proxy."""

from __future__ import annotations

import asyncio
from typing import Any

import openai
import pytest

from lego_verl.proxy.budget import Budget

BUDGET = Budget(context=100_000)
TOOLS: Any = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}}}]
MESSAGES: list[Any] = [{"role": "system", "content": "S"}, {"role": "user", "content": "Fix café."}]
SCRIPT = [
    {"text": "ok é", "reasoning": "hm", "tool_calls": [{"name": "bash", "arguments": {"command": "ls"}}] * 2},
    {"text": "done"},
]


def answered(message: dict[str, Any]) -> list[Any]:
    tools = [
        {"role": "tool", "tool_call_id": call["id"], "content": f"out {number}"}
        for number, call in enumerate(message["tool_calls"])
    ]
    return [*MESSAGES, message, *tools]


async def test_openai_whole(server: Any, scripted: Any) -> None:
    session = scripted(SCRIPT, budget=BUDGET)
    address = await server.open(session)
    async with openai.AsyncOpenAI(base_url=f"{address.base_url}/v1", api_key="k") as client:
        first = await client.chat.completions.create(model="policy", messages=MESSAGES, tools=TOOLS)
        message = first.choices[0].message
        assert message.tool_calls is not None
        assert first.choices[0].finish_reason == "tool_calls"
        second = await client.chat.completions.create(
            model="policy", messages=answered(message.model_dump(exclude_none=True)), tools=TOOLS
        )
        assert second.choices[0].message.content == "done"
        assert second.usage is not None
        assert second.usage.prompt_tokens == session.calls[1].prompt_length
        assert [model.id async for model in client.models.list()] == ["scripted"]
    assert len(session.segments()) == 1
    assert session.proof().holds


async def test_openai_streamed(server: Any, scripted: Any) -> None:
    session = scripted(SCRIPT, budget=BUDGET)
    address = await server.open(session)
    async with openai.AsyncOpenAI(base_url=f"{address.base_url}/v1", api_key="k") as client:
        async with client.chat.completions.stream(
            model="policy", messages=MESSAGES, tools=TOOLS, stream_options={"include_usage": True}
        ) as stream:
            first = await stream.get_final_completion()
        message = first.choices[0].message
        assert message.content == "ok é"
        assert message.tool_calls is not None
        assert [call.function.arguments for call in message.tool_calls] == ['{"command":"ls"}'] * 2
        assert first.usage is not None
        assert first.usage.completion_tokens == len(session.calls[0].sample.ids)
        history = answered(message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"}))
        for entry in history[2]["tool_calls"]:
            entry["function"].pop("parsed_arguments", None)
        second = await client.chat.completions.create(model="policy", messages=history, tools=TOOLS, stream=True)
        assert "".join([chunk.choices[0].delta.content or "" async for chunk in second]) == "done"
    assert len(session.segments()) == 1


async def test_openai_reads_our_errors(server: Any, scripted: Any) -> None:
    address = await server.open(scripted([{"error": "gone"}], budget=Budget(context=100_000)))
    full = await server.open(scripted([], "full", budget=Budget(context=3)))
    async with openai.AsyncOpenAI(base_url=f"{full.base_url}/v1", api_key="k", max_retries=0) as client:
        with pytest.raises(openai.BadRequestError) as overflow:
            await client.chat.completions.create(model="policy", messages=MESSAGES)
        assert overflow.value.code == "context_length_exceeded"
    async with openai.AsyncOpenAI(base_url=f"{address.base_url}/v1", api_key="k", max_retries=2) as client:
        # It retries the 500 by itself, and is then stopped by the end status.
        with pytest.raises(openai.AuthenticationError, match="policy_failed"):
            await client.chat.completions.create(model="policy", messages=MESSAGES)


async def test_litellm(server: Any, scripted: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    litellm = pytest.importorskip("litellm")
    session = scripted([*SCRIPT, {"text": "streamed é"}], budget=BUDGET)
    full = await server.open(scripted([], "full", budget=Budget(context=3)))
    address = await server.open(session)
    options = {"model": "openai/policy", "api_base": f"{address.base_url}/v1", "api_key": "k", "tools": TOOLS}

    def harness() -> None:
        first = litellm.completion(messages=MESSAGES, **options)
        message = first.choices[0].message.model_dump()
        assert message["reasoning_content"] == "hm"
        history = answered(message)
        second = litellm.completion(messages=history, **options)
        assert second.choices[0].message.content == "done"
        assert second.usage.prompt_tokens == session.calls[1].prompt_length
        history += [second.choices[0].message.model_dump(), {"role": "user", "content": "on"}]
        stream = litellm.completion(messages=history, stream=True, stream_options={"include_usage": True}, **options)
        chunks = list(stream)
        assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices) == "streamed é"
        usage = [chunk.usage for chunk in chunks if getattr(chunk, "usage", None)][-1]
        assert usage.completion_tokens == len(session.calls[2].sample.ids)
        with pytest.raises(litellm.ContextWindowExceededError):
            litellm.completion(messages=MESSAGES, **{**options, "api_base": f"{full.base_url}/v1"}, num_retries=0)

    # litellm's own client is synchronous here, as it is in harnesses.
    await asyncio.to_thread(harness)
    assert len(session.segments()) == 1
    assert session.proof().holds

"""litellm, unmodified: as a client of the proxy in its three protocols, and with policies under names of its own.

All in one file, since the import takes seconds.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from lego_verl.capture.bytelevel import byte_renderer
from lego_verl.capture.parser import HermesParser
from lego_verl.capture.record import read_recording, write_recording
from lego_verl.config import PolicyConfig
from lego_verl.policies.scripted import ScriptedPolicy
from lego_verl.proxy.budget import Budget
from lego_verl.proxy.server import ProxyServer
from lego_verl.proxy.session import Session
from lego_verl.serve.behind import behind

RENDERER, PARSER = byte_renderer(), HermesParser()
CALLS = [{"name": "bash", "arguments": {"command": "ls"}}] * 2
SCRIPT = [{"text": "ok é", "reasoning": "hm", "tool_calls": CALLS}, {"text": "done"}]
TOOLS: Any = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}}}]
MESSAGES: list[Any] = [{"role": "system", "content": "S"}, {"role": "user", "content": "Fix café."}]


@pytest.fixture(scope="module")
def litellm() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        # It is read when litellm is imported: the table of costs is not to be fetched.
        patch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        import litellm
    return litellm


def new_session(name: str, script: Any = SCRIPT, budget: Budget | None = None) -> Session:
    policy = ScriptedPolicy(script, renderer=RENDERER, parser=PARSER)
    return Session(name, policy, renderer=RENDERER, parser=PARSER, budget=budget)


@pytest.fixture
async def proxy() -> AsyncIterator[ProxyServer]:
    server = ProxyServer(new_session=new_session)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
def provider(litellm: Any) -> Iterator[Any]:
    from lego_verl.policies.litellm_provider import register

    full = lambda name: new_session(name, budget=Budget(context=3))  # noqa: E731
    provider = register({"script": new_session, "full": full})
    yield provider
    provider.close()


def answered(message: dict[str, Any]) -> list[Any]:
    """The history after a turn: it, and what its tools gave."""
    results = [
        {"role": "tool", "tool_call_id": call["id"], "content": f"out {number}"}
        for number, call in enumerate(message["tool_calls"])
    ]
    return [*MESSAGES, message, *results]


def check_first(message: Any) -> None:
    assert message.content == "ok é"
    assert message.reasoning_content == "hm"
    assert [call.function.name for call in message.tool_calls] == ["bash"] * 2
    assert [json.loads(call.function.arguments) for call in message.tool_calls] == [{"command": "ls"}] * 2
    assert len({call.id for call in message.tool_calls}) == 2


def check_session(session: Session) -> None:
    assert [len(session.calls), len(session.segments())] == [2, 1]
    assert session.proof().holds


def check_two_turns(litellm: Any, captured: Callable[[], Session], *, stream: bool, **options: Any) -> None:
    """A harness's two turns, whole or streamed, with tools; the usage is what was captured."""

    def ask(messages: list[Any]) -> Any:
        if not stream:
            return litellm.completion(messages=messages, tools=TOOLS, **options)
        usage = {"include_usage": True}
        chunks = list(litellm.completion(messages=messages, tools=TOOLS, stream=True, stream_options=usage, **options))
        assert len(chunks) > 2
        return litellm.stream_chunk_builder(chunks, messages=messages)

    first = ask(MESSAGES)
    check_first(first.choices[0].message)
    assert first.choices[0].finish_reason == "tool_calls"
    second = ask(answered(first.choices[0].message.model_dump(exclude_none=True)))
    assert (second.choices[0].message.content, second.choices[0].finish_reason) == ("done", "stop")
    for reply, call in zip((first, second), captured().calls, strict=True):
        assert reply.usage.prompt_tokens == call.prompt_length
        assert reply.usage.completion_tokens == len(call.sample.ids)
    check_session(captured())


@pytest.mark.parametrize("stream", [False, True])
async def test_chat_completions_of_the_proxy(litellm: Any, proxy: ProxyServer, stream: bool) -> None:
    options = {"model": "openai/policy", "api_base": f"{proxy.url}/s/a/v1", "api_key": "k"}
    session = lambda: proxy.sessions["a"]  # noqa: E731
    # litellm's own client is synchronous here, as it is in harnesses.
    await asyncio.to_thread(check_two_turns, litellm, session, stream=stream, **options)


async def test_messages_of_the_proxy(litellm: Any, proxy: ProxyServer) -> None:
    options = {
        "model": "anthropic/policy", "api_base": f"{proxy.url}/s/a", "api_key": "k", "max_tokens": 4096,
        "tools": [{"name": "bash", "input_schema": {"type": "object", "properties": {}}}],
    }  # fmt: skip
    messages: list[Any] = [{"role": "user", "content": "Fix café."}]
    first = await litellm.anthropic_messages(messages=messages, system="S", **options)
    assert first["stop_reason"] == "tool_use"
    uses = [block for block in first["content"] if block["type"] == "tool_use"]
    assert [block["text"] for block in first["content"] if block["type"] == "text"] == ["ok é"]
    assert [use["input"] for use in uses] == [{"command": "ls"}] * 2
    results = [{"type": "tool_result", "tool_use_id": use["id"], "content": "out"} for use in uses]
    messages += [{"role": "assistant", "content": first["content"]}, {"role": "user", "content": results}]
    second = await litellm.anthropic_messages(messages=messages, system="S", **options)
    assert [block["text"] for block in second["content"] if block["type"] == "text"] == ["done"]
    assert second["usage"]["input_tokens"] == proxy.sessions["a"].calls[1].prompt_length
    check_session(proxy.sessions["a"])


@pytest.mark.parametrize("stream", [False, True])
async def test_messages_of_the_proxy_for_completion(litellm: Any, proxy: ProxyServer, stream: bool) -> None:
    """Streamed this way only: ``litellm.anthropic_messages(stream=True)`` imports packages of litellm's own proxy."""
    options = {"model": "anthropic/policy", "api_base": f"{proxy.url}/s/a", "api_key": "k", "max_tokens": 4096}
    session = lambda: proxy.sessions["a"]  # noqa: E731
    await asyncio.to_thread(check_two_turns, litellm, session, stream=stream, **options)


async def test_responses_of_the_proxy(litellm: Any, proxy: ProxyServer) -> None:
    options = {
        "model": "openai/policy", "api_base": f"{proxy.url}/s/a/v1", "api_key": "k", "store": False,
        "instructions": "S", "tools": [{"type": "function", **TOOLS[0]["function"]}],
        "include": ["reasoning.encrypted_content"],
    }  # fmt: skip
    items: list[Any] = [{"role": "user", "content": "Fix café."}]
    first = await litellm.aresponses(input=items, **options)
    output = [item.model_dump(exclude_none=True) if hasattr(item, "model_dump") else item for item in first.output]
    calls = [item for item in output if item["type"] == "function_call"]
    assert [json.loads(call["arguments"]) for call in calls] == [{"command": "ls"}] * 2
    assert first.usage.output_tokens == len(proxy.sessions["a"].calls[0].sample.ids)
    items += output
    items += [{"type": "function_call_output", "call_id": call["call_id"], "output": "out"} for call in calls]
    stream = await litellm.aresponses(input=items, stream=True, **options)
    events = [event async for event in stream]
    deltas = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(deltas) == "done"
    assert events[-1].type == "response.completed"
    check_session(proxy.sessions["a"])


@pytest.mark.parametrize("stream", [False, True])
def test_a_policy_by_name(litellm: Any, provider: Any, stream: bool) -> None:
    session = lambda: provider.session("script", "one")  # noqa: E731
    check_two_turns(litellm, session, stream=stream, model="lego/script", session="one")
    # Another session begins at the script's beginning.
    other = litellm.completion("lego/script", messages=MESSAGES, tools=TOOLS, session="two")
    check_first(other.choices[0].message)
    assert len(provider.session("script", "two").calls) == 1
    assert len(session().calls) == 2


async def test_a_policy_by_name_asynchronously(litellm: Any, provider: Any) -> None:
    first = await litellm.acompletion("lego/script", messages=MESSAGES, tools=TOOLS)
    check_first(first.choices[0].message)
    history = answered(first.choices[0].message.model_dump(exclude_none=True))
    stream = await litellm.acompletion("lego/script", messages=history, tools=TOOLS, stream=True)
    assert "".join([chunk.choices[0].delta.content or "" async for chunk in stream]) == "done"
    check_session(provider.session("script"))


async def test_sync_and_async_callers_share_sessions(litellm: Any, provider: Any) -> None:
    asked = [
        litellm.acompletion("lego/script", messages=[{"role": "user", "content": "x"}], session=f"s{number}")
        for number in range(8)
    ]
    replies = await asyncio.gather(*asked)
    assert [reply.choices[0].message.content for reply in replies] == ["ok é"] * 8
    again = await asyncio.to_thread(
        litellm.completion, "lego/script", messages=[{"role": "user", "content": "x"}], session="s3"
    )
    # The same request in the same session is a retry: it gets the same reply.
    assert again.id == replies[3].id
    assert len(provider.session("script", "s3").calls) == 1


def test_what_a_session_refuses_is_litellm_s_error(litellm: Any, provider: Any) -> None:
    with pytest.raises(litellm.ContextWindowExceededError, match="maximum context length is 3"):
        litellm.completion("lego/full", messages=MESSAGES, num_retries=0)
    with pytest.raises(litellm.NotFoundError, match="lego/none: there is no such policy; there are full, script"):
        litellm.completion("lego/none", messages=MESSAGES, num_retries=0)
    with pytest.raises(litellm.BadRequestError, match="n=2 is not supported"):
        litellm.completion("lego/script", messages=MESSAGES, n=2, num_retries=0)
    provider.session("script").close("turn_limit")
    with pytest.raises(litellm.AuthenticationError, match="turn_limit"):
        litellm.completion("lego/script", messages=MESSAGES, num_retries=0, stream=True)


def test_litellm_s_map_is_touched_by_registering_alone(litellm: Any) -> None:
    from lego_verl.policies.litellm_provider import register

    before = list(litellm.custom_provider_map)
    provider = register({"script": new_session})
    assert litellm.custom_provider_map == [*before, {"provider": "lego", "custom_handler": provider}]
    with pytest.raises(ValueError, match="has a provider 'lego' already"):
        register({})
    other = register({"script": new_session}, "another")
    check_first(litellm.completion("another/script", messages=MESSAGES, tools=TOOLS).choices[0].message)
    provider.close()
    other.close()
    other.close()
    assert litellm.custom_provider_map == before
    with pytest.raises(litellm.BadRequestError):
        litellm.completion("lego/script", messages=MESSAGES, num_retries=0)


async def test_endpoints_and_recordings_have_names_as_well(litellm: Any, proxy: ProxyServer, tmp_path: Path) -> None:
    from lego_verl.policies.litellm_provider import register

    endpoint = behind(PolicyConfig(kind="endpoint", base_url=f"{proxy.url}/s/there/v1", model="m"))
    first = register({"endpoint": endpoint.session})
    try:
        reply = await litellm.acompletion("lego/endpoint", messages=MESSAGES, tools=TOOLS)
        check_first(reply.choices[0].message)
    finally:
        first.close()
    capture = proxy.sessions["there"].capture
    assert capture is not None
    write_recording(tmp_path, capture)
    replayed = behind(PolicyConfig(kind="replay", recording=str(tmp_path)))
    second = register({"recorded": replayed.session})
    try:
        reply = await litellm.acompletion("lego/recorded", messages=MESSAGES, tools=TOOLS)
        check_first(reply.choices[0].message)
        (call,) = second.session("recorded").calls
    finally:
        second.close()
    (recorded,) = read_recording(tmp_path).calls
    assert call.sample.logprobs.tolist() == recorded.sample.logprobs.tolist()
    assert call.prompt_digest == recorded.prompt_digest

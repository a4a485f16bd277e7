"""The official client of the Messages protocol, unmodified, against the proxy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from lego_verl.proxy.budget import Budget

BUDGET = Budget(context=100_000)
TOOLS: Any = [{"name": "bash", "description": "Run it.", "input_schema": {"type": "object", "properties": {}}}]
LS = {"name": "bash", "arguments": '{"command":  "ls é"}'}
SCRIPT = [
    {"text": "ok é", "reasoning": "hm", "tool_calls": [LS, LS]},
    {"reasoning": "hm hm\n\nhm", "tool_calls": [LS]},
    {"text": "\n\nLooking.  \n", "tool_calls": [LS]},
    {"text": "", "reasoning": "only thought"},
    {"text": "done"},
]
ASK: Any = {"model": "policy", "max_tokens": 1000, "tools": TOOLS, "system": "S", "thinking": {"type": "adaptive"}}


def client(address: Any, **options: Any) -> anthropic.AsyncAnthropic:
    return anthropic.AsyncAnthropic(base_url=address.base_url, api_key="k", **options)


async def whole(api: anthropic.AsyncAnthropic, messages: list[Any]) -> Any:
    return await api.messages.create(messages=messages, **ASK)


async def streamed(api: anthropic.AsyncAnthropic, messages: list[Any]) -> Any:
    async with api.messages.stream(messages=messages, **ASK) as stream:
        return await stream.get_final_message()


def answers(message: Any) -> Iterator[Any]:
    """What a harness that appends says next: results in another order than the calls, or a word."""
    uses = [block for block in message.content if block.type == "tool_use"]
    for block in reversed(uses):
        yield {"type": "tool_result", "tool_use_id": block.id, "content": f"out of {block.input}", "is_error": False}
    if not uses:
        yield {"type": "text", "text": "Go on.", "cache_control": {"type": "ephemeral"}}


@pytest.mark.parametrize("ask", [whole, streamed])
async def test_a_loop_of_its_own_objects_is_one_segment(ask: Any, server: Any, scripted: Any) -> None:
    session = scripted(SCRIPT, budget=BUDGET)
    address = await server.open(session)
    messages: list[Any] = [{"role": "user", "content": "Fix café."}]
    said: list[Any] = []
    async with client(address) as api:
        for _ in SCRIPT:
            counted = await api.messages.count_tokens(model="policy", messages=messages, tools=TOOLS, system="S")
            message = await ask(api, messages)
            assert message.usage.input_tokens == counted.input_tokens == session.calls[-1].prompt_length
            assert message.usage.output_tokens == len(session.calls[-1].sample.ids)
            said.append(message)
            messages += [
                {"role": "assistant", "content": message.content},
                {"role": "user", "content": list(answers(message))},
            ]
    assert [message.stop_reason for message in said] == ["tool_use"] * 3 + ["end_turn"] * 2
    kinds = [[block.type for block in message.content] for message in said]
    assert kinds == [
        ["thinking", "text", "tool_use", "tool_use"], ["thinking", "tool_use"], ["text", "tool_use"], ["thinking"],
        ["text"],
    ]  # fmt: skip
    assert said[0].content[0].thinking == "hm"
    assert said[0].content[0].signature
    assert said[0].content[2].input == {"command": "ls é"}
    assert [str(split) for split in session.capture.splits()] == ["first"]
    proof = session.proof()
    assert proof.holds
    assert proof.loss_tokens == session.sampled_tokens


async def test_a_slow_stream_is_read_past_its_pings(server: Any, scripted: Any) -> None:
    address = await server.open(scripted([{"text": "ok", "delay": 0.5}], budget=BUDGET))
    async with client(address) as api:
        message = await streamed(api, [{"role": "user", "content": "x"}])
    assert message.content[0].text == "ok"


async def test_a_cut_and_a_stop_are_told_apart(server: Any, scripted: Any) -> None:
    address = await server.open(scripted([{"text": "one END"}], repeat="last", budget=BUDGET))
    question: Any = [{"role": "user", "content": "x"}]
    async with client(address) as api:
        cut = await api.messages.create(model="policy", max_tokens=3, messages=question)
        stopped = await api.messages.create(model="policy", max_tokens=50, messages=question, stop_sequences=["END"])
    assert (cut.stop_reason, cut.stop_sequence) == ("max_tokens", None)
    assert (stopped.stop_reason, stopped.stop_sequence) == ("stop_sequence", "END")


async def test_it_reads_our_errors(server: Any, scripted: Any) -> None:
    question: Any = [{"role": "user", "content": "x"}]
    full = await server.open(scripted([], "full", budget=Budget(context=3)))
    async with client(full, max_retries=0) as api:
        with pytest.raises(anthropic.BadRequestError, match=r"prompt is too long: \d+ tokens > 3 maximum"):
            await whole(api, question)
    over = await server.open(scripted([{"text": "x"}], "over", budget=Budget(turns=0), end_status=403))
    async with client(over, max_retries=0) as api:
        with pytest.raises(anthropic.PermissionDeniedError, match="turn_limit"):
            await whole(api, question)
    late = await server.open(scripted([{"error": "gone", "delay": 0.3}], "late", budget=BUDGET))
    async with client(late, max_retries=0) as api:
        with pytest.raises(anthropic.APIStatusError, match="gone"):
            await streamed(api, question)


async def test_the_models_are_listed_for_both_families_of_clients(server: Any, scripted: Any) -> None:
    address = await server.open(scripted([], budget=Budget()))
    assert [model.id async for model in client(address).models.list()] == ["scripted"]
    theirs = openai.AsyncOpenAI(base_url=f"{address.base_url}/v1", api_key="k")
    assert [model.id async for model in theirs.models.list()] == ["scripted"]

"""Chat completions, on the wire."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from proxy_fixtures import RENDERER, body, user

from lego_verl.proxy.budget import Budget
from lego_verl.proxy.dialects.chat import ChatCompletions
from lego_verl.proxy.known import Known

CALL = {"name": "bash", "arguments": {"command": "ls"}}
BUDGET = Budget(context=100_000)


def events(raw: bytes) -> list[Any]:
    assert raw.endswith(b"data: [DONE]\n\n")
    lines = [line for line in raw.decode().split("\n\n") if line.startswith("data: ")]
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-1]]


async def test_a_whole_reply(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"text": "ok", "reasoning": "hm", "tool_calls": [CALL, CALL]}], budget=BUDGET)
    address = await server.open(session)
    reply = (await post(address.base_url, body(user()))).json
    choice = reply["choices"][0]
    assert choice["finish_reason"] == "tool_calls"
    assert choice["message"]["content"] == "ok"
    assert choice["message"]["reasoning_content"] == "hm"
    ids = [call["id"] for call in choice["message"]["tool_calls"]]
    assert len(set(ids)) == 2
    assert all(id.startswith("call_") for id in ids)
    assert [call["function"]["arguments"] for call in choice["message"]["tool_calls"]] == ['{"command":"ls"}'] * 2
    (call,) = session.calls
    assert reply["usage"] == {
        "prompt_tokens": call.prompt_length,
        "completion_tokens": len(call.sample.ids),
        "total_tokens": call.prompt_length + len(call.sample.ids),
    }
    assert reply["model"] == "policy"
    assert call.sample.ids[-1] == RENDERER.close_id


async def test_a_streamed_reply_says_the_same(server: Any, scripted: Any, post: Any) -> None:
    reply = {"text": "ok", "reasoning": "hm", "tool_calls": [CALL, CALL]}
    address = await server.open(scripted([reply], budget=BUDGET))
    raw = (await post(address.base_url, body(user(), stream=True, stream_options={"include_usage": True}))).body
    chunks = events(raw)
    assert len({chunk["id"] for chunk in chunks}) == 1
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks if chunk["choices"]]
    assert deltas[0]["role"] == "assistant"
    assert "".join(delta.get("content") or "" for delta in deltas) == "ok"
    assert "".join(delta.get("reasoning_content") or "" for delta in deltas) == "hm"
    calls = [call for delta in deltas for call in delta.get("tool_calls", [])]
    assert [call["index"] for call in calls] == [0, 1]
    finishes = [chunk["choices"][0]["finish_reason"] for chunk in chunks if chunk["choices"]]
    assert finishes[-1] == "tool_calls"
    assert set(finishes[:-1]) == {None}
    assert chunks[-1]["usage"]["completion_tokens"] > 0
    assert all(chunk["usage"] is None for chunk in chunks[:-1])


async def test_without_asking_there_is_no_usage_in_a_stream(server: Any, scripted: Any, post: Any) -> None:
    address = await server.open(scripted([{"text": "ok"}], budget=BUDGET))
    chunks = events((await post(address.base_url, body(user(), stream=True))).body)
    assert all("usage" not in chunk and chunk["choices"] for chunk in chunks)


async def test_a_slow_stream_is_kept_alive(server: Any, scripted: Any, post: Any) -> None:
    address = await server.open(scripted([{"text": "ok", "delay": 0.5}], budget=BUDGET))
    raw = (await post(address.base_url, body(user(), stream=True))).body
    assert raw.count(b": generating\n\n") >= 3
    assert events(raw)[-1]["choices"][0]["finish_reason"] == "stop"


async def test_a_stream_that_fails_late_says_so_inside(server: Any, scripted: Any, post: Any) -> None:
    address = await server.open(scripted([{"error": "the engine is gone", "delay": 0.3}], budget=BUDGET))
    reply = await post(address.base_url, body(user(), stream=True))
    assert reply.status == 200
    assert events(reply.body)[-1]["error"]["message"] == "the engine is gone"


async def test_a_cut_in_the_middle_of_a_tool_call_is_text_and_length(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"tool_calls": [CALL], "cut": True}, {"tool_calls": [CALL]}], budget=BUDGET)
    address = await server.open(session)
    choice = (await post(address.base_url, body(user()))).json["choices"][0]
    assert choice["finish_reason"] == "length"
    assert "tool_calls" not in choice["message"]
    assert choice["message"]["content"].startswith("<tool_call>")
    assert session.malformed == 1
    # The harness goes on from it, and then drops it: as mini-swe-agent does.
    follow = await post(address.base_url, body(user(), choice["message"], user("You were cut.")))
    assert follow.json["choices"][0]["finish_reason"] == "tool_calls"
    assert len(session.segments()) == 1
    assert session.proof().holds


@pytest.mark.parametrize("limit", ["max_tokens", "max_completion_tokens"])
async def test_max_tokens_is_honoured_exactly(limit: str, server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"text": "0123456789"}], repeat="last", budget=BUDGET)
    address = await server.open(session)
    for asked, sampled, finish in ((4, 4, "length"), (10, 10, "length"), (11, 11, "stop"), (50, 11, "stop")):
        reply = (await post(address.base_url, body(user(), **{limit: asked}))).json
        assert reply["usage"]["completion_tokens"] == sampled
        assert reply["choices"][0]["finish_reason"] == finish
    assert (await post(address.base_url, body(user(), **{limit: 0}))).status == 400


async def test_a_stop_string_ends_the_text_before_it(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"text": "one END two"}, {"text": "one two"}], budget=BUDGET)
    address = await server.open(session)
    reply = (await post(address.base_url, body(user(), stop=["END"]))).json["choices"][0]
    assert (reply["message"]["content"], reply["finish_reason"]) == ("one ", "stop")
    assert session.calls[0].text == "one END"
    follow = await post(address.base_url, body(user(), reply["message"], user("on"), stop="END"))
    assert follow.json["choices"][0]["message"]["content"] == "one two"
    assert len(session.segments()) == 1
    assert session.proof().holds


async def test_the_room_in_the_context_bounds_a_reply(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"text": "x" * 50}], repeat="last", budget=BUDGET)
    address = await server.open(session)
    prompt = (await post(address.base_url, body(user()))).json["usage"]["prompt_tokens"]
    for room in (1, 7):
        tight = scripted([{"text": "x" * 50}], f"tight-{room}", budget=Budget(context=prompt + room))
        address = await server.open(tight)
        reply = (await post(address.base_url, body(user()))).json
        assert reply["usage"]["completion_tokens"] == room
        assert reply["choices"][0]["finish_reason"] == "length"
    full = await server.open(scripted([{"text": "x"}], "full", budget=Budget(context=prompt)))
    reply = await post(full.base_url, body(user()))
    assert reply.status == 400
    assert reply.json["error"]["code"] == "context_length_exceeded"
    assert reply.json["error"]["type"] == "invalid_request_error"
    assert f"maximum context length is {prompt} tokens" in reply.json["error"]["message"]


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"n": 2}, "n=2"),
        ({"logprobs": True}, "logprobs"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "function": {"name": "bash"}}}, "tool_choice"),
        ({"response_format": {"type": "json_object"}}, "response_format"),
        ({"functions": [{"name": "f"}]}, "functions"),
        ({"tools": [{"type": "web_search"}]}, "web_search"),
        ({"modalities": ["audio"]}, "modalities"),
    ],
)
async def test_what_cannot_be_honoured_is_refused_by_name(
    options: dict[str, Any], named: str, server: Any, scripted: Any, post: Any
) -> None:
    session = scripted([{"text": "ok"}], budget=BUDGET)
    address = await server.open(session)
    reply = await post(address.base_url, body(user(), **options))
    assert reply.status == 400
    assert named in reply.json["error"]["message"]
    assert (await post(address.base_url, body(user()))).status == 200


@pytest.mark.parametrize("kind", ["image_url", "input_audio", "file"])
async def test_parts_that_are_no_text_are_refused_by_name(kind: str, server: Any, scripted: Any, post: Any) -> None:
    address = await server.open(scripted([{"text": "ok"}], budget=BUDGET))
    parts = [{"type": "text", "text": "look"}, {"type": kind, kind: {}}]
    reply = await post(address.base_url, body({"role": "user", "content": parts}))
    assert reply.status == 400
    assert kind in reply.json["error"]["message"]


async def test_wire_forms_of_one_history_are_one_segment(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"tool_calls": [CALL]}, {"text": "done"}, {"text": "end"}], budget=BUDGET)
    address = await server.open(session)
    turn = (await post(address.base_url, body(user()))).json["choices"][0]["message"]
    call = turn["tool_calls"][0]
    tool = {"role": "tool", "tool_call_id": call["id"], "content": "out"}
    marked = {"type": "text", "text": "Fix it.", "cache_control": {"type": "ephemeral"}}
    respelt = {**call, "function": {"name": "bash", "arguments": '{ "command": "ls" }'}}
    turn_again = {"role": "assistant", "tool_calls": [respelt]}
    second = (await post(address.base_url, body({"role": "user", "content": [marked]}, turn, tool))).json
    third = body(user(), turn_again, {**tool, "content": [{"type": "text", "text": "out"}]},
                 second["choices"][0]["message"], user("more"))  # fmt: skip
    assert (await post(address.base_url, third)).status == 200
    assert [segment.reason for segment in session.segments()] == ["first"]


async def test_the_harness_s_sampling_is_recorded_and_not_used(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"text": "ok"}], budget=BUDGET)
    address = await server.open(session)
    await post(address.base_url, body(user(), temperature=0.0, top_p=0.5, seed=3))
    assert session.capture.asked[0].sampling == {"temperature": 0.0, "top_p": 0.5, "seed": 3}


async def test_models(server: Any, scripted: Any, post: Any) -> None:
    address = await server.open(scripted([], budget=BUDGET))
    reply = await post(address.base_url, b"", "/v1/models", "GET")
    assert [model["id"] for model in reply.json["data"]] == ["scripted"]


def test_arguments_that_came_as_an_object_are_read_anew() -> None:
    """To Python, true equals 1: what a session knows must not stand for a message that says something else."""
    known, read = Known(), []
    for value in (1, True, True):
        call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": {"a": value}}}
        wire = body(user(), {"role": "assistant", "tool_calls": [call]})
        read.append(ChatCompletions().read(orjson.dumps(wire), {}, known).request.messages[-1].tool_calls[0].arguments)
    assert read == ['{"a":1}', '{"a":true}', '{"a":true}']

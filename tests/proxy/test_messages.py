"""Messages, on the wire: what a harness is told."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest

from lego_verl.policies.policy import ChatReply, Sampling
from lego_verl.proxy.budget import Budget
from lego_verl.proxy.dialects.messages import Messages
from lego_verl.proxy.errors import PromptTooLong, ProxyError

PATH = "/v1/messages"
COUNT = f"{PATH}/count_tokens"
CALL = {"name": "bash", "arguments": '{"command":  "ls"}'}
BUDGET = Budget(context=100_000)
SAID = {"text": "ok é", "reasoning": "hm", "tool_calls": [CALL, CALL]}
USER = {"role": "user", "content": "Fix it."}


def body(*messages: dict[str, Any], **options: Any) -> dict[str, Any]:
    return {"model": "policy", "max_tokens": 1000, "system": "S", "messages": list(messages or [USER]), **options}


def events(raw: bytes) -> list[Any]:
    """Every event but pings; its name is its type."""
    read = []
    for piece in raw.decode().split("\n\n")[:-1]:
        name, data = piece.split("\n")
        read.append(json.loads(data.removeprefix("data: ")))
        assert name == f"event: {read[-1]['type']}"
    return [event for event in read if event["type"] != "ping"]


async def test_a_whole_reply(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([SAID], budget=BUDGET)
    address = await server.open(session)
    reply = (await post(address.base_url, body(), PATH)).json
    thinking, text, *uses = reply.pop("content")
    assert thinking == {"type": "thinking", "thinking": "hm", "signature": thinking["signature"]}
    assert thinking["signature"].startswith("lego1.")
    assert text == {"type": "text", "text": "ok é"}
    assert [(use["type"], use["name"], use["input"]) for use in uses] == [("tool_use", "bash", {"command": "ls"})] * 2
    assert len({use["id"] for use in uses}) == 2
    assert all(use["id"].startswith("toolu_") for use in uses)
    (call,) = session.calls
    assert reply.pop("id").startswith("msg_")
    assert reply == {
        "type": "message",
        "role": "assistant",
        "model": "policy",
        "stop_reason": "tool_use",
        "stop_sequence": None,
        "usage": {
            "input_tokens": call.prompt_length,
            "output_tokens": len(call.sample.ids),
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 0,
        },
    }


async def test_a_streamed_reply_says_the_same(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([SAID], budget=BUDGET)
    address = await server.open(session)
    start, *middle, ending, stop = events((await post(address.base_url, body(stream=True), PATH)).body)
    assert start["message"]["usage"]["input_tokens"] == session.calls[0].prompt_length
    assert (start["message"]["content"], start["message"]["stop_reason"]) == ([], None)
    assert stop == {"type": "message_stop"}
    assert ending["delta"] == {"stop_reason": "tool_use", "stop_sequence": None}
    assert ending["usage"]["output_tokens"] == len(session.calls[0].sample.ids)
    blocks = {event["index"]: event["content_block"] for event in middle if event["type"] == "content_block_start"}
    assert [block["type"] for block in blocks.values()] == ["thinking", "text", "tool_use", "tool_use"]
    assert [event["index"] for event in middle if event["type"] == "content_block_stop"] == list(blocks)
    deltas = [(event["index"], event["delta"]) for event in middle if event["type"] == "content_block_delta"]
    assert [(index, delta["type"]) for index, delta in deltas] == [
        (0, "thinking_delta"), (0, "signature_delta"), (1, "text_delta"), (2, "input_json_delta"),
        (3, "input_json_delta"),
    ]  # fmt: skip
    assert deltas[0][1]["thinking"] == "hm"
    assert deltas[2][1]["text"] == "ok é"
    assert deltas[3][1]["partial_json"] == CALL["arguments"]


async def test_a_slow_stream_is_kept_alive(server: Any, scripted: Any, post: Any) -> None:
    address = await server.open(scripted([{"text": "ok", "delay": 0.5}], budget=BUDGET))
    raw = (await post(address.base_url, body(stream=True), PATH)).body
    assert raw.count(Messages.keepalive) >= 3
    assert events(raw)[-1]["type"] == "message_stop"


async def test_a_stream_that_fails_late_says_so_inside(server: Any, scripted: Any, post: Any) -> None:
    address = await server.open(scripted([{"error": "the engine is gone", "delay": 0.3}], budget=BUDGET))
    reply = await post(address.base_url, body(stream=True), PATH)
    assert reply.status == 200
    (event,) = events(reply.body)
    assert (event["type"], event["error"]) == ("error", {"type": "api_error", "message": "the engine is gone"})


async def test_max_tokens_is_honoured_exactly(server: Any, scripted: Any, post: Any) -> None:
    address = await server.open(scripted([{"text": "0123456789"}], repeat="last", budget=BUDGET))
    for asked, sampled, reason in ((4, 4, "max_tokens"), (10, 10, "max_tokens"), (11, 11, "end_turn")):
        reply = (await post(address.base_url, body(max_tokens=asked), PATH)).json
        assert (reply["usage"]["output_tokens"], reply["stop_reason"]) == (sampled, reason)


async def test_a_stop_string_is_named(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"text": "one END two"}, {"text": "one two"}], budget=BUDGET, sampling=Sampling(stop=("two",)))
    address = await server.open(session)
    reply = (await post(address.base_url, body(stop_sequences=["ENDS", "END", "E"]), PATH)).json
    assert reply["content"] == [{"type": "text", "text": "one "}]
    assert (reply["stop_reason"], reply["stop_sequence"]) == ("stop_sequence", "E")
    turn = {"role": "assistant", "content": reply["content"]}
    # The trainer's own stop string is none of the harness's.
    reply = (await post(address.base_url, body(USER, turn, USER, stop_sequences=["E"]), PATH)).json
    assert reply["content"] == [{"type": "text", "text": "one "}]
    assert (reply["stop_reason"], reply["stop_sequence"]) == ("end_turn", None)
    assert len(session.segments()) == 1
    assert session.proof().holds


async def test_a_malformed_call_is_text_and_stays_trainable(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"raw": '<tool_call>\n{"name": "bash", "arguments": {"command": "ls'}, SAID], budget=BUDGET)
    address = await server.open(session)
    reply = (await post(address.base_url, body(), PATH)).json
    assert [block["type"] for block in reply["content"]] == ["text"]
    assert reply["stop_reason"] == "end_turn"
    assert session.malformed == 1
    turn = {"role": "assistant", "content": reply["content"]}
    assert (await post(address.base_url, body(USER, turn, USER), PATH)).status == 200
    assert len(session.segments()) == 1
    assert session.proof().holds


async def test_nothing_sampled_but_the_end_is_an_empty_reply(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"text": ""}, {"text": "ok"}], budget=BUDGET)
    address = await server.open(session)
    reply = (await post(address.base_url, body(), PATH)).json
    assert (reply["content"], reply["stop_reason"]) == ([], "end_turn")
    turn = {"role": "assistant", "content": reply["content"]}
    assert (await post(address.base_url, body(USER, turn, USER), PATH)).status == 200
    assert len(session.segments()) == 1


class Endpoint:
    """Says a tool call whose arguments are no JSON, which no policy of ours can."""

    model = "endpoint"

    async def reply(self, body: Any) -> ChatReply:
        call = {"id": "call_1", "function": {"name": "bash", "arguments": '{"command": "ls'}}
        return ChatReply({"tool_calls": [call]}, "tool_calls", {})


async def test_arguments_that_are_no_object_come_as_harnesses_keep_them(server: Any, scripted: Any, post: Any) -> None:
    address = await server.open(scripted([], policy=Endpoint()))
    kept = {"__unparsedToolInput": {"raw": '{"command": "ls', "len": 15}}
    (block,) = (await post(address.base_url, body(), PATH)).json["content"]
    assert block["input"] == kept
    streamed = events((await post(address.base_url, body(stream=True), PATH)).body)
    assert [json.loads(e["delta"]["partial_json"]) for e in streamed if e["type"] == "content_block_delta"] == [kept]
    turn = {"role": "assistant", "content": [block]}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": block["id"]}]}
    read = Messages().read(orjson.dumps(body(USER, turn, result)), {})
    assert read.request.messages[2].tool_calls[0].arguments == '{"command": "ls'
    reply = await post(address.base_url, body(), COUNT)
    assert reply.status == 400
    assert "cannot be counted" in reply.json["error"]["message"]


@pytest.mark.parametrize(
    ("status", "kind"),
    [
        (400, "invalid_request_error"),
        (401, "authentication_error"),
        (402, "billing_error"),
        (403, "permission_error"),
        (404, "not_found_error"),
        (405, "invalid_request_error"),
        (413, "request_too_large"),
        (429, "rate_limit_error"),
        (500, "api_error"),
        (529, "overloaded_error"),
    ],
)
def test_errors_by_status(status: int, kind: str) -> None:
    error = json.loads(Messages().error(ProxyError(status, "words", code="a_code")))
    assert error.pop("request_id").startswith("req_")
    assert error == {"type": "error", "error": {"type": kind, "message": "words"}}


async def test_a_context_that_is_full_is_said_in_the_words_on_which_harnesses_compact(
    server: Any, scripted: Any, post: Any
) -> None:
    address = await server.open(scripted([{"text": "x"}], budget=Budget(context=10)))
    tokens = (await post(address.base_url, body(), COUNT)).json["input_tokens"]
    reply = await post(address.base_url, body(), PATH)
    assert reply.status == 400
    error = {"type": "invalid_request_error", "message": f"prompt is too long: {tokens} tokens > 10 maximum"}
    assert reply.json["error"] == error


@pytest.mark.parametrize(
    ("engine", "said"),
    [
        (
            "This model's maximum context length is 10 tokens. However, you requested 0 output tokens and your prompt "
            "contains at least 11 input tokens, for a total of at least 11 tokens.",
            "11 tokens > 10 maximum",
        ),
        ("too much", "too much"),
    ],
)
def test_an_engine_s_own_words_for_it(engine: str, said: str) -> None:
    error = json.loads(Messages().error(PromptTooLong(None, None, engine)))
    assert error["error"]["message"] == f"prompt is too long: {said}"


async def test_counting_tokens(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([SAID, SAID], budget=BUDGET)
    address = await server.open(session)
    question = {"messages": [USER], "system": "S", "model": "policy"}  # no max_tokens: the protocol has none here
    counted = [(await post(address.base_url, question, COUNT)).json for _ in range(2)]
    assert (session.turns, session.calls) == (0, [])
    reply = (await post(address.base_url, body(), PATH)).json
    assert counted == [{"input_tokens": reply["usage"]["input_tokens"]}] * 2
    turn = {"role": "assistant", "content": reply["content"]}
    follow = body(USER, turn, USER)
    counted = (await post(address.base_url, follow, COUNT)).json
    assert counted["input_tokens"] == (await post(address.base_url, follow, PATH)).json["usage"]["input_tokens"]
    assert (session.turns, len(session.segments())) == (2, 1)
    assert (await post(address.base_url, body(messages=[]), COUNT)).json["error"]["type"] == "invalid_request_error"
    assert (await post(address.base_url, b"", COUNT, "GET")).status == 405
    assert (await post(address.base_url, body(), "/v1/chat/completions/count_tokens")).status == 404
    session.close("turn_limit")
    reply = await post(address.base_url, follow, COUNT)
    assert (reply.status, reply.json["error"]["type"]) == (401, "authentication_error")


async def test_a_session_that_is_over_stops_its_harness(server: Any, scripted: Any, post: Any) -> None:
    address = await server.open(scripted([SAID], budget=Budget(turns=1), end_status=403))
    assert (await post(address.base_url, body(), PATH)).status == 200
    reply = await post(address.base_url, body(USER, USER), PATH)
    assert (reply.status, reply.json["error"]["type"]) == (403, "permission_error")
    assert "turn_limit" in reply.json["error"]["message"]
    for path in (PATH, COUNT):
        reply = await post(f"http://127.0.0.1:{server.port}/s/other", body(), path)
        assert (reply.status, reply.json["type"], reply.json["error"]["type"]) == (404, "error", "not_found_error")


async def test_sub_agents_are_told_by_their_header() -> None:
    assert Messages().read(orjson.dumps(body()), {"x-claude-code-agent-id": "a"}).request.origin == "subagent"


async def test_the_harness_s_sampling_is_recorded_and_not_used(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([SAID], budget=BUDGET)
    address = await server.open(session)
    asked = {
        "temperature": 0.0,
        "top_p": 0.5,
        "top_k": 3,
        "thinking": {"type": "adaptive"},
        "metadata": {"user_id": "x"},
    }
    assert (await post(address.base_url, body(**asked, unknown_field={"a": 1}), PATH)).status == 200
    assert session.capture.asked[0].sampling == asked

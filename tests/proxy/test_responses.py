"""Responses, on the wire."""

from __future__ import annotations

import json
from typing import Any

import pytest
from proxy_fixtures import RENDERER
from responses_fixtures import AGENTS, BASH, BUDGET, CALL, PATCH, PATH, ask, read_events, read_response, result, said

from lego_verl.proxy.budget import Budget

FULL = {"text": "ok é", "reasoning": "hm", "tool_calls": [CALL, CALL]}


async def test_a_whole_reply(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([FULL], budget=BUDGET)
    address = await server.open(session)
    reply = read_response((await post(address.base_url, ask(tools=[BASH]), PATH)).json)
    assert reply["id"].startswith("resp_")
    assert (reply["object"], reply["status"], reply["model"]) == ("response", "completed", "policy")
    assert reply["store"] is False
    assert reply["error"] is reply["incomplete_details"] is None
    reasoning, message, first, second = reply["output"]
    assert reasoning["id"].startswith("rs_")
    assert reasoning["summary"] == [{"type": "summary_text", "text": "hm"}]
    assert message["id"].startswith("msg_")
    assert [part["text"] for part in message["content"]] == ["ok é"]
    assert [call["arguments"] for call in (first, second)] == ['{"command":"ls"}'] * 2
    assert all(call["call_id"].startswith("call_") and call["id"].startswith("fc_") for call in (first, second))
    assert len({first["id"], second["id"], first["call_id"], second["call_id"]}) == 4
    (call,) = session.calls
    sampled = len(call.sample.ids)
    assert call.sample.ids[-1] == RENDERER.close_id
    assert reply["usage"] == {
        "input_tokens": call.prompt_length,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": sampled,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": call.prompt_length + sampled,
    }


async def test_a_streamed_reply_says_the_same(server: Any, scripted: Any, post: Any) -> None:
    address = await server.open(scripted([FULL, FULL], budget=BUDGET))
    events = read_events((await post(address.base_url, ask(tools=[BASH], stream=True), PATH)).body)
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created", "in_progress",
        "output_item.added", "reasoning_summary_part.added", "reasoning_summary_text.delta",
        "reasoning_summary_text.done", "reasoning_summary_part.done", "output_item.done",
        "output_item.added", "content_part.added", "output_text.delta", "output_text.done",
        "content_part.done", "output_item.done",
        *["output_item.added", "function_call_arguments.delta", "function_call_arguments.done", "output_item.done"] * 2,
        "completed",
    ]  # fmt: skip
    final = read_response(events[-1]["response"])
    assert [event["item"] for event in events if event["type"] == "response.output_item.done"] == final["output"]
    added = [event["item"] for event in events if event["type"] == "response.output_item.added"]
    assert [item["id"] for item in added] == [item["id"] for item in final["output"]]
    deltas = ["".join(event["delta"] for event in events if event.get("item_id") == item["id"] and "delta" in event)
              for item in added]  # fmt: skip
    assert deltas == ["hm", "ok é", '{"command":"ls"}', '{"command":"ls"}']
    assert [event["response"]["status"] for event in events if "response" in event] == [
        "in_progress", "in_progress", "completed",
    ]  # fmt: skip
    assert final["usage"]["output_tokens"] > 0
    whole = (await post(address.base_url, ask(tools=[BASH]), PATH)).json
    without = [[{k: v for k, v in item.items() if k not in ("id", "call_id")} for item in output["output"]]
               for output in (final, whole)]  # fmt: skip
    assert without[0] == without[1]


async def test_a_retry_gets_the_same_ids(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([FULL], budget=BUDGET)
    address = await server.open(session)
    wire = ask(tools=[BASH], stream=True)
    assert (await post(address.base_url, wire, PATH)).body == (await post(address.base_url, wire, PATH)).body
    assert (session.turns, session.replays) == (1, 1)


async def test_a_slow_stream_is_kept_alive(server: Any, scripted: Any, post: Any) -> None:
    address = await server.open(scripted([{"text": "ok", "delay": 0.5}], budget=BUDGET))
    raw = (await post(address.base_url, ask(stream=True), PATH)).body
    assert raw.count(b": generating\n\n") >= 3
    assert read_events(raw)[-1]["type"] == "response.completed"


async def test_a_stream_that_fails_late_says_so_inside(server: Any, scripted: Any, post: Any) -> None:
    address = await server.open(scripted([{"error": "the engine is gone", "delay": 0.3}], budget=BUDGET))
    reply = await post(address.base_url, ask(stream=True), PATH)
    assert reply.status == 200
    created, failed = read_events(reply.body)
    assert created["type"] == "response.created"
    assert failed["type"] == "response.failed"
    assert failed["response"]["status"] == "failed"
    assert failed["response"]["error"] == {"code": "policy_failed", "message": "the engine is gone"}


@pytest.mark.parametrize("stream", [False, True])
async def test_max_output_tokens_is_honoured_exactly(stream: bool, server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"text": "0123456789"}], repeat="last", budget=BUDGET)
    address = await server.open(session)
    for asked, sampled, status in ((4, 4, "incomplete"), (10, 10, "incomplete"), (11, 11, "completed")):
        reply = await post(address.base_url, ask(max_output_tokens=asked, stream=stream), PATH)
        events = read_events(reply.body) if stream else []
        final = read_response(events[-1]["response"] if stream else reply.json)
        assert final["usage"]["output_tokens"] == sampled
        assert final["status"] == status
        assert final["output"][-1]["status"] == status
        assert final["incomplete_details"] == ({"reason": "max_output_tokens"} if status == "incomplete" else None)
        assert not stream or events[-1]["type"] == f"response.{status}"
    assert (await post(address.base_url, ask(max_output_tokens=0), PATH)).status == 400


async def test_an_empty_reply_is_an_empty_message(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"text": ""}, {"text": "ok"}], budget=BUDGET)
    address = await server.open(session)
    first = read_events((await post(address.base_url, ask(stream=True), PATH)).body)[-1]["response"]
    assert [item["content"][0]["text"] for item in first["output"]] == [""]
    assert (await post(address.base_url, ask(*first["output"], said("Go on.")), PATH)).status == 200
    assert len(session.segments()) == 1


async def test_a_full_context_has_the_code_on_which_harnesses_act(server: Any, scripted: Any, post: Any) -> None:
    address = await server.open(scripted([], budget=Budget(context=3)))
    reply = await post(address.base_url, ask(stream=True), PATH)
    assert reply.status == 400
    error = reply.json["error"]
    assert (error["type"], error["param"], error["code"]) == ("invalid_request_error", None, "context_length_exceeded")
    assert "maximum context length is 3 tokens" in error["message"]


async def test_errors_of_a_session_that_is_over_have_this_shape(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"text": "ok"}], budget=BUDGET, end_status=400)
    address = await server.open(session)
    session.close("time_limit")
    reply = await post(address.base_url, ask(stream=True), PATH)
    assert (reply.status, reply.json["error"]["code"]) == (400, "time_limit")
    assert (await post(address.base_url, b"", PATH, "GET")).status == 405


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"previous_response_id": "resp_1"}, "previous_response_id"),
        ({"store": True, "previous_response_id": "resp_1"}, "previous_response_id"),
        ({"conversation": {"id": "conv_1"}}, "conversation"),
        ({"background": True}, "background"),
        ({"prompt": {"id": "pmpt_1"}}, "prompt"),
        ({"context_management": [{"type": "compaction"}]}, "context_management"),
        ({"tool_choice": "required"}, "tool_choice"),
        ({"tool_choice": {"type": "function", "name": "bash"}}, "tool_choice"),
        ({"text": {"format": {"type": "json_object"}}}, "text.format"),
        ({"top_logprobs": 3}, "logprobs"),
        ({"include": ["message.output_text.logprobs"]}, "logprobs"),
        ({"input": [{"type": "item_reference", "id": "msg_1"}]}, "item_reference"),
        ({"input": [{"type": "web_search_call", "id": "ws_1"}]}, "web_search_call"),
        ({"input": [{"role": "critic", "content": "x"}]}, "critic"),
        ({"tools": [{"type": "function", "function": {"name": "bash"}}]}, "tools[0] has no name"),
        ({"tools": [AGENTS, {**BASH, "name": "agents__spawn"}]}, "agents__spawn"),
    ],
)
async def test_what_cannot_be_honoured_is_refused_by_name(
    options: dict[str, Any], named: str, server: Any, scripted: Any, post: Any
) -> None:
    session = scripted([{"text": "ok"}], budget=BUDGET)
    address = await server.open(session)
    reply = await post(address.base_url, ask(**options), PATH)
    assert reply.status == 400
    assert named in reply.json["error"]["message"]
    assert (await post(address.base_url, ask(), PATH)).status == 200


@pytest.mark.parametrize("kind", ["input_image", "input_file", "input_audio"])
@pytest.mark.parametrize("place", ["message", "output"])
async def test_parts_that_are_no_text_are_refused_by_name(
    kind: str, place: str, server: Any, scripted: Any, post: Any
) -> None:
    address = await server.open(scripted([{"text": "ok"}], budget=BUDGET))
    parts = [{"type": "input_text", "text": "look"}, {"type": kind}]
    item = {"role": "user", "content": parts}
    if place == "output":
        item = {"type": "function_call_output", "call_id": "call_1", "output": parts}
    reply = await post(address.base_url, ask(item), PATH)
    assert reply.status == 400
    assert kind in reply.json["error"]["message"]


async def test_what_changes_nothing_is_accepted_and_what_was_wished_is_recorded(
    server: Any, scripted: Any, post: Any
) -> None:
    session = scripted([{"text": "ok"}], budget=BUDGET)
    address = await server.open(session)
    wished = {"temperature": 0.5, "top_p": 0.9, "parallel_tool_calls": False, "service_tier": "auto"}
    more = {
        "store": True, "reasoning": {"effort": "low", "summary": "auto"}, "text": {"verbosity": "low"},
        "include": ["reasoning.encrypted_content"], "prompt_cache_key": "k", "metadata": {"a": "b"},
        "client_metadata": {"c": "d"}, "tool_choice": "auto", "user": "u",
    }  # fmt: skip
    reply = read_response((await post(address.base_url, ask(**wished, **more), PATH)).json)
    assert reply["store"] is False
    assert session.capture.asked[0].sampling == {**wished, "reasoning_effort": "low", "verbosity": "low"}


async def test_a_developer_s_and_a_system_s_words_at_the_beginning_are_one_system_message(
    server: Any, scripted: Any, post: Any
) -> None:
    session = scripted([{"text": "ok"}], repeat="last", budget=BUDGET)
    address = await server.open(session)
    items = [said("D", "developer"), {"role": "system", "content": "E"}, said(), said("late", "developer"), said("b")]
    await post(address.base_url, ask(input=items), PATH)
    messages = session.capture.asked[0].messages
    assert [(message.role, message.text) for message in messages] == [
        ("system", "S\n\nD\n\nE"), ("user", "Fix it."), ("system", "late"), ("user", "b"),
    ]  # fmt: skip
    await post(address.base_url, {"model": "policy", "input": "just text"}, PATH)
    assert [(message.role, message.text) for message in session.capture.asked[1].messages] == [("user", "just text")]


async def test_how_tools_are_offered_to_the_policy(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"text": "ok"}], repeat="last", budget=BUDGET)
    address = await server.open(session)
    tools = [BASH, PATCH, AGENTS, {"type": "web_search"}, {"type": "web_search"}, {"type": "mcp", "server_label": "x"}]
    await post(address.base_url, ask(tools=tools), PATH)
    asked = session.capture.asked[0]
    bash, patch, spawn = [tool["function"] for tool in asked.tools]
    assert all(tool["type"] == "function" for tool in asked.tools)
    assert bash == {key: BASH[key] for key in ("name", "description", "parameters")}
    assert patch["name"] == "apply_patch"
    assert patch["parameters"]["required"] == list(patch["parameters"]["properties"]) == ["input"]
    assert "start: patch" in patch["parameters"]["properties"]["input"]["description"]
    assert spawn["name"] == "agents__spawn"
    assert asked.sampling["dropped_tools"] == ["web_search", "mcp"]
    await post(address.base_url, ask(tools=tools, tool_choice="none"), PATH)
    assert list(session.capture.asked[1].tools) == []


async def test_a_call_goes_out_as_its_tool_was_declared(server: Any, scripted: Any, post: Any) -> None:
    calls = [
        {"name": "agents__spawn", "arguments": {}},
        {"name": "apply_patch", "arguments": {"input": "*** Begin é\n"}},
        {"name": "nobody", "arguments": '{"x":  1}'},
    ]
    address = await server.open(scripted([{"tool_calls": calls}], budget=BUDGET))
    raw = (await post(address.base_url, ask(tools=[BASH, PATCH, AGENTS], stream=True), PATH)).body
    events = read_events(raw)
    spawn, patch, nobody = events[-1]["response"]["output"]
    assert (spawn["type"], spawn["name"], spawn["namespace"]) == ("function_call", "spawn", "agents")
    assert (patch["type"], patch["name"], patch["input"]) == ("custom_tool_call", "apply_patch", "*** Begin é\n")
    assert patch["id"].startswith("ctc_")
    assert (nobody["type"], nobody["name"], nobody["arguments"]) == ("function_call", "nobody", '{"x":  1}')
    assert "namespace" not in nobody
    sent = [event for event in events if event["type"].startswith("response.custom_tool_call_input")]
    assert [event.get("delta", event.get("input")) for event in sent] == ["*** Begin é\n"] * 2
    assert json.dumps(events).count("web_search") == 0
    assert result(patch)["type"] == "custom_tool_call_output"

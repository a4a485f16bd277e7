"""Messages, on the wire: what a harness says."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from lego_verl.capture.message import Message, ToolCall
from lego_verl.proxy.dialects.messages import Messages
from lego_verl.proxy.errors import BadRequest
from lego_verl.proxy.exchange import Ask

CACHED = {"cache_control": {"type": "ephemeral"}}
SCHEMA = {"type": "object", "properties": {}}


def read(*messages: dict[str, Any], **options: Any) -> Ask:
    return Messages().read(orjson.dumps({"max_tokens": 10, "messages": list(messages), **options}), {})


def user(content: Any = "Fix it.") -> dict[str, Any]:
    return {"role": "user", "content": content}


def text(said: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **more}


def result(call: str, content: Any = "out", **more: Any) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": call, "content": content, **more}


def use(call: str, **given: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call, "name": "bash", "input": given}


def history(*messages: dict[str, Any], **options: Any) -> list[Message]:
    return list(read(*messages, **options).request.messages)


def test_strings_and_lists_are_the_same() -> None:
    as_strings = history(user(), {"role": "system", "content": "M"}, system="S")
    as_lists = history(
        user([text("Fix it.", **CACHED)]),
        {"role": "system", "content": [text("M", **CACHED)]},
        system=[text("S", **CACHED)],
    )
    assert as_strings == as_lists == [Message("system", "S"), Message("user", "Fix it."), Message("system", "M")]
    assert history(user([text("a"), text("b")]), system=[text("c"), text("d")]) == [
        Message("system", "c\nd"),
        Message("user", "a\nb"),
    ]
    assert history(user(), system=[]) == [Message("user", "Fix it.")]


def test_an_assistant_s_turn() -> None:
    thinking = {"type": "thinking", "thinking": "hm", "signature": "another policy's"}
    redacted = {"type": "redacted_thinking", "data": "xyz"}
    blocks = [thinking, redacted, text("ok"), use("t1", b=1, a=[2]), use("t2")]
    assert history(user(), {"role": "assistant", "content": blocks}, user())[1] == Message(
        "assistant", "ok", "hm", (ToolCall("t1", "bash", '{"b":1,"a":[2]}'), ToolCall("t2", "bash", "{}"))
    )
    assert history(user(), {"role": "assistant", "content": "ok"}, user())[1] == Message("assistant", "ok")


@pytest.mark.parametrize(
    ("given", "read_as"),
    [
        ({"__unparsedToolInput": {"raw": '{"a', "len": 3}}, '{"a'),
        ({"__unparsedToolInput": {"raw": 1}}, '{"__unparsedToolInput":{"raw":1}}'),
        ({"__unparsedToolInput": {"raw": "x"}, "a": 1}, '{"__unparsedToolInput":{"raw":"x"},"a":1}'),
    ],
)
def test_input_that_a_harness_could_not_parse(given: dict[str, Any], read_as: str) -> None:
    turn = {"role": "assistant", "content": [use("t1", **given)]}
    assert history(user(), turn, user([result("t1")]))[1].tool_calls[0].arguments == read_as


def test_results_come_before_what_the_user_says() -> None:
    blocks = [text("and"), result("t2", [text("a"), text("b")]), result("t1"), text("go on")]
    results = [Message("tool", "a\nb", "", (), "t2"), Message("tool", "out", "", (), "t1")]
    assert history(user(blocks)) == [*results, Message("user", "and\ngo on")]
    assert history(user([*blocks[1:3], text("")])) == results
    assert history(user([])) == [Message("user", "")]


@pytest.mark.parametrize(
    ("block", "said"),
    [
        (result("t", None), ""),
        (result("t", []), ""),
        (result("t", None, is_error=True), "error"),
        (result("t", "exit 1", is_error=True), "exit 1"),
        (result("t", [{"type": "tool_reference", "tool_name": "unheard_of"}]), "unheard_of"),
    ],
)
def test_what_a_result_says(block: dict[str, Any], said: str) -> None:
    assert history(user([block])) == [Message("tool", said, "", (), "t")]


def test_tools_become_what_templates_render() -> None:
    tools = [
        {"name": "a", "description": "d", "input_schema": SCHEMA, **CACHED},
        {"type": "custom", "name": "b", "input_schema": SCHEMA},
    ]
    a, b = ({"name": "a", "description": "d", "parameters": SCHEMA}, {"name": "b", "parameters": SCHEMA})
    shown = ({"type": "function", "function": a}, {"type": "function", "function": b})
    assert read(user(), tools=tools).request.tools == shown
    assert read(user(), tools=tools, tool_choice={"type": "auto"}).request.tools == shown
    assert read(user(), tools=tools, tool_choice={"type": "none"}).request.tools == ()


def test_a_deferred_tool_is_seen_where_it_was_found() -> None:
    tools = [{"name": name, "input_schema": SCHEMA, "defer_loading": name == "late"} for name in ("search", "late")]
    found = result("t", [text("found:"), {"type": "tool_reference", "tool_name": "late"}])
    request = read(user([found]), tools=tools).request
    assert [tool["function"]["name"] for tool in request.tools] == ["search"]
    definition = '{"type":"function","function":{"name":"late","parameters":{"type":"object","properties":{}}}}'
    assert request.messages[0].text == f"found:\n{definition}"


@pytest.mark.parametrize("kind", ["image", "document", "search_result", "container_upload"])
def test_blocks_that_are_no_text_are_refused_by_name(kind: str) -> None:
    block = {"type": kind, "source": {}}
    for content in ([text("look"), block], [result("t", [block])]):
        with pytest.raises(BadRequest, match=kind):
            read(user(content))


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"max_tokens": None}, "max_tokens: Field required"),
        ({"max_tokens": 0}, "max_tokens: Input should be greater than or equal to 1"),
        ({"max_tokens": True}, "max_tokens"),
        ({"tool_choice": {"type": "any"}}, "tool_choice"),
        ({"tool_choice": {"type": "tool", "name": "bash"}}, "tool_choice"),
        ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "web_search_20250305"),
        ({"tools": [{"name": "a"}]}, "tools.0.input_schema"),
        ({"mcp_servers": [{"url": "x"}]}, "mcp_servers"),
        ({"output_config": {"format": {"type": "json_schema"}}}, "output_config.format"),
        ({"stop_sequences": "END"}, "stop_sequences"),
        ({"messages": []}, "at least one message"),
        ({"messages": [user(), {"role": "assistant", "content": "Sure,"}]}, "prefill"),
        ({"messages": [{"role": "developer", "content": "x"}]}, "developer"),
        ({"messages": [{"role": "assistant", "content": [{"type": "server_tool_use"}]}, user()]}, "server_tool_use"),
    ],
)
def test_what_cannot_be_honoured_is_refused_by_name(options: dict[str, Any], named: str) -> None:
    with pytest.raises(BadRequest, match=named):
        read(user(), **options)

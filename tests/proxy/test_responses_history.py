"""What a client sends back of a reply is the turn that was sampled, in whatever form it comes."""

from __future__ import annotations

import copy
import zlib
from base64 import b64encode
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from responses_fixtures import AGENTS, BASH, BUDGET, CALL, PATCH, PATH, ask, result, said

from lego_verl.capture.match import same_arguments
from lego_verl.proxy.dialects.responses_custom import sampled_id, to_arguments, to_client
from lego_verl.proxy.dialects.responses_reasoning import seal, unseal

TOOLS = [BASH, PATCH, AGENTS]
CALM = settings(deadline=None, derandomize=True, database=None)
FULL = {"text": "ok", "reasoning": "hm\n\nindeed", "tool_calls": [CALL, CALL]}


def outputs(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [result(item, f"out {place}") for place, item in enumerate(items) if "call_id" in item]


async def two_turns(
    reply: dict[str, Any], change: Any, server: Any, scripted: Any, post: Any, reasoning: str = "strip"
) -> Any:
    """The session after a reply and a request with what ``change`` makes of it."""
    session = scripted([reply, {"text": "done"}], budget=BUDGET, reasoning=reasoning)
    address = await server.open(session)
    output = (await post(address.base_url, ask(tools=TOOLS), PATH)).json["output"]
    sent = change(copy.deepcopy(output))
    follow = await post(address.base_url, ask(*sent, *(outputs(output) or [said("on")]), tools=TOOLS), PATH)
    assert follow.status == 200, follow.body
    assert session.proof().holds
    return session


def without(*names: str) -> Any:
    return lambda items: [{key: value for key, value in item.items() if key not in names} for item in items]


FORMS = {
    "as it was": lambda items: items,
    "without ids and status": without("id", "status"),
    "without its summary": lambda items: [{**item, "summary": []} if "summary" in item else item for item in items],
    "without a summary at all": without("summary"),
    "with the summary alone": without("encrypted_content"),
    "with a content that is not ours": lambda items: [
        {**item, "encrypted_content": "gAAAAAB"} if "summary" in item else item for item in items
    ],
    "with null content": lambda items: [{**item, "content": item.get("content")} for item in items],
}


@pytest.mark.parametrize("form", FORMS)
async def test_a_turn_comes_back(form: str, server: Any, scripted: Any, post: Any) -> None:
    # reasoning="strip": reasoning that is lost on the way would begin a segment.
    session = await two_turns(FULL, FORMS[form], server, scripted, post)
    assert [str(split) for split in session.capture.splits()] == ["first"]


async def test_reasoning_that_is_lost_is_no_change_where_the_recipe_keeps_it(
    server: Any, scripted: Any, post: Any
) -> None:
    def lose(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [{"type": "reasoning", "summary": []}, *items[1:]]

    session = await two_turns(FULL, lose, server, scripted, post, "keep")
    assert [str(split) for split in session.capture.splits()] == ["first"]


async def test_an_edited_turn_is_seen(server: Any, scripted: Any, post: Any) -> None:
    def edit(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
        items[1]["content"][0]["text"] = "something else"
        return items

    session = await two_turns(FULL, edit, server, scripted, post)
    assert [str(split) for split in session.capture.splits()] == ["first", "edited_turn"]


@pytest.mark.parametrize("reply", [{"text": "only text"}, {"text": "", "reasoning": "only thought"}, {"text": ""}])
async def test_turns_without_calls_come_back(reply: dict[str, Any], server: Any, scripted: Any, post: Any) -> None:
    session = await two_turns(reply, lambda items: items, server, scripted, post)
    assert [str(split) for split in session.capture.splits()] == ["first"]


@pytest.mark.parametrize(
    "arguments",
    [
        {"input": "*** Begin Patch\n"},
        {"input": '{"command": "ls"}'},
        {"input": ""},
        {"command": "ls"},
        {"input": "x", "more": 1},
        {"input": 1},
        {},
        '{ "input":  "caf\\u00e9" }',
        '{"input": "\\ud800"}',
        '{"a": "\\ud800"}',
    ],
)
async def test_custom_calls_come_back(arguments: Any, server: Any, scripted: Any, post: Any) -> None:
    reply = {"tool_calls": [{"name": "apply_patch", "arguments": arguments}, CALL]}
    session = await two_turns(reply, without("id", "status"), server, scripted, post)
    assert [str(split) for split in session.capture.splits()] == ["first"]


async def test_calls_of_a_namespace_and_of_nobody_come_back(server: Any, scripted: Any, post: Any) -> None:
    calls = [{"name": "agents__spawn", "arguments": {}}, {"name": "nobody", "arguments": {"x": 1}}]
    session = await two_turns({"tool_calls": calls}, lambda items: items, server, scripted, post)
    assert [str(split) for split in session.capture.splits()] == ["first"]


async def test_results_in_another_order_and_in_parts_are_the_same_history(
    server: Any, scripted: Any, post: Any
) -> None:
    session = scripted([{"tool_calls": [CALL, CALL]}, {"text": "a"}, {"text": "b"}], budget=BUDGET)
    address = await server.open(session)
    first = (await post(address.base_url, ask(), PATH)).json["output"]
    one, two = outputs(first)
    second = (await post(address.base_url, ask(*first, two, one), PATH)).json["output"]
    parts = {**two, "output": [{"type": "input_text", "text": two["output"]}]}
    third = await post(address.base_url, ask(*first, one, parts, *second, said("on")), PATH)
    assert third.status == 200
    assert [str(split) for split in session.capture.splits()] == ["first"]
    assert session.proof().holds


async def test_two_replies_in_a_row_stay_two(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"text": "x"}], budget=BUDGET)
    address = await server.open(session)
    call = {"type": "function_call", "call_id": "call_1", "name": "bash", "arguments": "{}"}
    history = [said("a", "assistant"), said("b", "assistant"), call, {"type": "reasoning", "summary": []}, call]
    await post(address.base_url, ask(*history, result(call)), PATH)
    turns = [message for message in session.capture.asked[0].messages if message.role == "assistant"]
    assert [(turn.text, len(turn.tool_calls)) for turn in turns] == [("a", 0), ("b", 1), ("", 1)]


@CALM
@given(st.text())
def test_sealed_reasoning_is_read_back(text: str) -> None:
    assert unseal(seal(text)) == text


def test_sealed_reasoning_that_repeats_itself_is_read_back() -> None:
    assert unseal(seal("the " * 100_000)) == "the " * 100_000


@CALM
@given(st.one_of(st.none(), st.integers(), st.text(), st.text().map(lambda text: "lego1." + text)))
def test_what_is_none_of_ours_is_nothing(content: Any) -> None:
    assert unseal(content) is None


def test_a_small_content_cannot_become_large() -> None:
    assert unseal("lego1." + b64encode(zlib.compress(b"x" * 10_000_000)).decode()) is None


@CALM
@given(st.text(st.characters(exclude_categories=["Cs"])), st.text(alphabet='{}[]":,input \\e1', max_size=20))
def test_any_arguments_of_a_custom_call_are_read_back(text: str, raw: str) -> None:
    for arguments in (orjson.dumps({"input": text}).decode(), orjson.dumps({"x": text}).decode(), raw):
        call = to_client("call_1", arguments)
        assert sampled_id(call.call_id) == "call_1"
        assert same_arguments(arguments, to_arguments(call))

"""Recorded requests of Claude Code, with a script in the policy's place."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from proxy_fixtures import TRAFFIC, exchanges

from lego_verl.proxy.budget import Budget

ROOM = Budget(context=100_000)

SEGMENTS = {
    # The harness only appends: a first user message that turns from a list to a string, cache_control that moves from
    # message to message, and Edit's replace_all, which it fills in, change nothing.
    "claude-normal": ["first"],
    "claude-tidy": ["first"],
    # Besides, the results of two calls come in another order than the calls.
    "claude-par": ["first"],
    # Two faults, each followed by the same bytes.
    "claude-f500": ["first"],
    # The recorded model server passed malformed arguments on in a tool call, and the harness's history holds that call.
    # This proxy says them as text, so the recorded history holds a turn that is none of its own. A harness that talks
    # to this proxy sends the text back: test_a_malformed_call_of_the_policy_is_one_segment.
    "claude-badargs": ["first", "edited_turn"],
}


def of_type(kind: str, blocks: Any) -> list[dict[str, Any]]:
    return [block for block in blocks if block["type"] == kind] if isinstance(blocks, list) else []


def reply_of(response: dict[str, Any]) -> dict[str, Any]:
    content = response["content"]
    return {
        "text": "".join(block["text"] for block in of_type("text", content)),
        "reasoning": "".join(block["thinking"] for block in of_type("thinking", content)),
        "tool_calls": [{"name": use["name"], "arguments": use["input"]} for use in of_type("tool_use", content)],
    }


def with_ids(body: dict[str, Any], ids: dict[str, str]) -> dict[str, Any]:
    """The recorded body with the ids of tool calls that this proxy minted in the recorded ones' place."""
    body = copy.deepcopy(body)
    for message in body["messages"]:
        for block in of_type("tool_use", message["content"]):
            block["id"] = ids.get(block["id"], block["id"])
        for block in of_type("tool_result", message["content"]):
            block["tool_use_id"] = ids.get(block["tool_use_id"], block["tool_use_id"])
    return body


def uses(raw: bytes) -> list[str]:
    """The ids of the tool calls of a streamed reply."""
    lines = [line.removeprefix("data: ") for line in raw.decode().splitlines() if line.startswith("data: ")]
    starts = [event["content_block"] for event in map(json.loads, lines) if event["type"] == "content_block_start"]
    return [block["id"] for block in of_type("tool_use", starts)]


async def replay(name: str, server: Any, scripted: Any, post: Any, budgets: dict[int, Budget] | None = None) -> Any:
    """Post what was recorded. ``budgets`` are the session's from the request of that number on."""
    recorded = exchanges(name)
    script = [reply_of(entry["response"]) for entry in recorded if entry["status"] == 200]
    session = scripted(script, budget=ROOM)
    address = await server.open(session)
    ids: dict[str, str] = {}
    replies = []
    for number, entry in enumerate(recorded):
        session.budget = (budgets or {}).get(number, session.budget)
        reply = await post(address.base_url, with_ids(entry["body"], ids), f"{entry['path']}?beta=true")
        replies.append(reply)
        if entry["status"] == reply.status == 200:
            before = [block["id"] for block in of_type("tool_use", entry["response"]["content"])]
            ids |= dict(zip(before, uses(reply.body), strict=False))
    return session, replies


def splits(session: Any) -> list[str]:
    return [str(split) for split in session.capture.splits()]


@pytest.mark.parametrize("name", SEGMENTS)
async def test_as_many_segments_as_the_harness_makes_necessary(
    name: str, server: Any, scripted: Any, post: Any
) -> None:
    session, replies = await replay(name, server, scripted, post)
    assert {reply.status for reply in replies} == {200}
    assert splits(session) == SEGMENTS[name]
    proof = session.proof()
    assert proof.holds, proof
    assert proof.untrained == {}
    assert proof.loss_tokens == session.sampled_tokens > 0
    assert session.malformed == (1 if name == "claude-badargs" else 0)


async def test_every_recorded_file_of_this_harness_is_replayed() -> None:
    assert {path.stem for path in TRAFFIC.glob("claude-*.jsonl")} == {*SEGMENTS, "claude-ctx"}


async def test_retries_after_a_fault_get_the_stored_reply(server: Any, scripted: Any, post: Any) -> None:
    session, replies = await replay("claude-f500", server, scripted, post)
    faults = [number for number, entry in enumerate(exchanges("claude-f500")) if entry["status"] != 200]
    assert len(faults) == session.replays == 2
    assert len({replies[number].body for number in (*faults, faults[-1] + 1)}) == 1
    assert session.turns == len(replies) - 2


async def test_a_context_that_is_full_is_summed_up_and_gone_on_from(server: Any, scripted: Any, post: Any) -> None:
    recorded = exchanges("claude-ctx")
    full = [number for number, entry in enumerate(recorded) if entry["status"] == 400]
    assert full == [3]
    session, replies = await replay("claude-ctx", server, scripted, post, {3: Budget(context=1000), 4: ROOM})
    assert [reply.status for reply in replies] == [entry["status"] for entry in recorded]
    said, meant = replies[3].json["error"], recorded[3]["response"]["error"]
    words = said["message"].split()
    assert said["type"] == meant["type"]
    assert [word for word in words if not word.isdigit()] == [w for w in meant["message"].split() if not w.isdigit()]
    assert words[-2] == "1000"
    # Three: the conversation until it was full; the summary, asked for after only its first turn and gone afterwards;
    # and what goes on from it, with two of the turns that were there, under a system prompt whose first line (a version
    # and a digest of the first message) is another.
    assert splits(session) == ["first", "side_call", "compacted"]
    assert [call.segment for call in session.calls] == [0, 0, 0, 1, 2, 2, 2]
    proof = session.proof()
    assert proof.holds, proof
    assert proof.untrained == {"side_call": len(session.calls[3].sample.ids)}
    assert proof.loss_tokens + proof.untrained["side_call"] == session.sampled_tokens


async def test_a_malformed_call_of_the_policy_is_one_segment(server: Any, scripted: Any, post: Any) -> None:
    """What the harness makes of the same malformed call when this proxy says it: the end of its turn, and text."""
    recorded = exchanges("claude-badargs")
    session = scripted([reply_of(recorded[1]["response"]), {"text": "ok"}], budget=ROOM)
    address = await server.open(session)
    asked = {**recorded[0]["body"], "stream": False}
    reply = (await post(address.base_url, asked, "/v1/messages")).json
    assert reply["stop_reason"] == "end_turn"
    assert [block["type"] for block in reply["content"]] == ["thinking", "text"]
    turns = [{"role": "assistant", "content": reply["content"]}, {"role": "user", "content": "Go on."}]
    asked["messages"] = [*asked["messages"], *turns]
    assert (await post(address.base_url, asked, "/v1/messages")).status == 200
    assert splits(session) == ["first"]
    assert session.malformed == 1
    assert session.proof().holds

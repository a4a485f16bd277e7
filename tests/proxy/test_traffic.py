"""Recorded requests of mini-swe-agent, with a script in the policy's place."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from lego_verl.proxy.session import Budget

TRAFFIC = Path(__file__).parents[1] / "data" / "traffic"

SEGMENTS = {
    "mini-normal": ["first"],
    "mini-par": ["first"],
    "mini-long": ["first"],
    "mini-f429": ["first"],
    "mini-ctx": ["first"],
    # The harness removes an assistant's turn that it could not use and goes on without it.
    "mini-badargs": ["first", "dropped_turn"],
    "mini-badfmt": ["first", "dropped_turn"],
    "mini-badtool": ["first", "dropped_turn"],
}


def exchanges(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (TRAFFIC / f"{name}.jsonl").read_text().splitlines()]


def reply_of(response: dict[str, Any]) -> dict[str, Any]:
    message = response["choices"][0]["message"]
    return {
        "text": message.get("content") or "",
        "reasoning": message.get("reasoning_content") or "",
        "tool_calls": [call["function"] for call in message.get("tool_calls") or []],
    }


def with_ids(body: dict[str, Any], ids: dict[str, str]) -> dict[str, Any]:
    """The recorded body with the ids of tool calls that this proxy minted in the recorded ones' place."""
    body = copy.deepcopy(body)
    for message in body["messages"]:
        for call in message.get("tool_calls") or []:
            call["id"] = ids[call["id"]]
        if "tool_call_id" in message:
            message["tool_call_id"] = ids[message["tool_call_id"]]
    return body


async def replay(name: str, server: Any, scripted: Any, post: Any, budget: Budget, id: str = "trial") -> Any:
    recorded = exchanges(name)
    script = [reply_of(entry["response"]) for entry in recorded if entry["status"] == 200]
    session = scripted([*script, {"text": "one more"}], id, budget=budget)
    address = await server.open(session)
    ids: dict[str, str] = {}
    statuses = []
    for entry in recorded:
        reply = await post(address.base_url, with_ids(entry["body"], ids))
        statuses.append(reply.status)
        if entry["status"] == 200 and reply.status == 200:
            before = entry["response"]["choices"][0]["message"].get("tool_calls") or []
            after = reply.json["choices"][0]["message"].get("tool_calls") or []
            ids |= {old["id"]: new["id"] for old, new in zip(before, after, strict=False)}
    return session, statuses


@pytest.mark.parametrize("name", SEGMENTS)
async def test_as_many_segments_as_the_harness_makes_necessary(
    name: str, server: Any, scripted: Any, post: Any
) -> None:
    assert (TRAFFIC / f"{name}.jsonl").exists()
    session, statuses = await replay(name, server, scripted, post, Budget(context=100_000))
    assert set(statuses) == {200}
    assert [str(split) for split in session.capture.splits()] == SEGMENTS[name]
    proof = session.proof()
    assert proof.holds, proof
    assert proof.untrained == {}
    assert proof.loss_tokens == session.sampled_tokens > 0
    assert session.malformed == (1 if name == "mini-badargs" else 0)


async def test_every_recorded_file_of_this_harness_is_replayed() -> None:
    assert {path.stem for path in TRAFFIC.glob("mini-*.jsonl")} == set(SEGMENTS)


async def test_retries_after_a_fault_get_the_stored_reply(server: Any, scripted: Any, post: Any) -> None:
    session, _ = await replay("mini-f429", server, scripted, post, Budget(context=100_000))
    faults = sum(entry["status"] != 200 for entry in exchanges("mini-f429"))
    assert session.replays == faults == 2
    assert session.turns == len(exchanges("mini-f429")) - faults


async def test_a_context_that_is_full_is_an_overflow(server: Any, scripted: Any, post: Any) -> None:
    session, _ = await replay("mini-ctx", server, scripted, post, Budget(context=100_000))
    limit = session.calls[-1].prompt_length
    session, statuses = await replay("mini-ctx", server, scripted, post, Budget(context=limit), "again")
    assert statuses == [entry["status"] for entry in exchanges("mini-ctx")] == [200, 200, 200, 400]
    assert session.ending == "context_overflow"
    assert not session.over
    assert session.proof().holds

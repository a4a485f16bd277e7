"""Recorded requests of harnesses that speak chat completions, with a script in the policy's place.

The segments are as many as the harness makes necessary, and no more: see docs/04-capture.md.
"""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from proxy_fixtures import TRAFFIC, exchanges

from lego_verl.proxy.budget import Budget

SIDE, FIRST, AGAIN = "side_call", "first", "compacted"
SEGMENTS = {
    "mini-normal": [FIRST],
    "mini-par": [FIRST],
    "mini-long": [FIRST],
    "mini-f429": [FIRST],
    "mini-ctx": [FIRST],
    # The harness removes an assistant's turn that it could not use and goes on without it.
    "mini-badargs": [FIRST, "dropped_turn"],
    "mini-badfmt": [FIRST, "dropped_turn"],
    "mini-badtool": [FIRST, "dropped_turn"],
    # Arguments are written anew with other spacing and reasoning is left out: the same turns.
    "ohsdk-normal": [FIRST],
    "ohsdk-par": [FIRST],
    "ohsdk-badtool": [FIRST],
    "ohsdk-badfmt": [FIRST],
    # A call whose arguments are no JSON is replaced by a call of another tool.
    "ohsdk-badargs": [FIRST, "edited_turn"],
    # Eight rounds of at most four calls. A summary is asked for between them, without tools; the recorded model always
    # says the same, so that five of the seven requests for one are byte for byte those of before.
    "ohsdk-cond": [FIRST, SIDE, AGAIN, SIDE, AGAIN, AGAIN, AGAIN, AGAIN, AGAIN, AGAIN],
    # A title is asked for first. (The adapter switches that off.)
    "opencode-normal": [SIDE, FIRST],
    "opencode-par": [SIDE, FIRST],
    # A call whose arguments are no JSON is replaced by a call of the tool "invalid".
    "opencode-badargs": [SIDE, FIRST, "edited_turn"],
    # Ten rounds of three calls, and summaries as above.
    "opencode-bigusage": [SIDE, FIRST, SIDE, AGAIN, SIDE, AGAIN, AGAIN, AGAIN, AGAIN, AGAIN, AGAIN, AGAIN, AGAIN],
    "swea-normal": [FIRST],
    # Of a turn with two calls only its text is kept.
    "swea-par": [FIRST, "edited_turn"],
    # A call whose arguments are no JSON is shown once, with a complaint, and gone afterwards.
    "swea-badargs": [FIRST, "edited_turn", "dropped_turn"],
}
MALFORMED = {"mini-badargs", "ohsdk-badargs", "opencode-badargs", "swea-badargs"}


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
            call["id"] = ids.get(call["id"], call["id"])
        if "tool_call_id" in message:
            message["tool_call_id"] = ids.get(message["tool_call_id"], message["tool_call_id"])
    return body


def calls_of(reply: Any) -> list[dict[str, Any]]:
    """The tool calls of a reply, whole or streamed."""
    if reply.json is not None:
        return reply.json["choices"][0]["message"].get("tool_calls") or []
    events = [line.removeprefix(b"data: ") for line in reply.body.splitlines() if line.startswith(b"data: {")]
    choices = [choice for event in events for choice in json.loads(event)["choices"]]
    return [call for choice in choices for call in choice["delta"].get("tool_calls") or []]


async def replay(name: str, server: Any, scripted: Any, post: Any, budget: Budget, id: str = "trial") -> Any:
    recorded = exchanges(name)
    due: dict[str, Any] = {}
    session = scripted(lambda _: due, id, budget=budget)
    address = await server.open(session)
    ids: dict[str, str] = {}
    statuses = []
    for number, entry in enumerate(recorded):
        # What was answered with a fault there is answered here, with what its retry was answered.
        good = (later for later in recorded[number:] if later["status"] == 200)
        due = next((reply_of(later["response"]) for later in good), {"text": "one more"})
        reply = await post(address.base_url, with_ids(entry["body"], ids))
        statuses.append(reply.status)
        if entry["status"] == 200 and reply.status == 200:
            before = entry["response"]["choices"][0]["message"].get("tool_calls") or []
            after = calls_of(reply)
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
    assert set(proof.untrained) == ({SIDE} & set(SEGMENTS[name]))
    assert proof.loss_tokens + sum(proof.untrained.values()) == session.sampled_tokens > 0
    assert session.malformed == (name in MALFORMED)


async def test_every_recorded_file_is_replayed() -> None:
    others = ("claude-", "codex-")  # test_messages_traffic.py, test_responses_traffic.py
    assert {path.stem for path in TRAFFIC.glob("*.jsonl") if not path.stem.startswith(others)} == set(SEGMENTS)


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

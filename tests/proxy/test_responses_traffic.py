"""Recorded requests of Codex, with a script in the policy's place."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from proxy_fixtures import TRAFFIC, exchanges
from responses_fixtures import PATH, read_events

from lego_verl.proxy.budget import Budget

WIDE = Budget(context=200_000)

SEGMENTS = {
    # Codex appends: it sends every item back as it came, and adds to the end.
    "codex-normal": ["first"],
    # The results of two calls at once stand behind both calls, in their order.
    "codex-par": ["first"],
    # A call of a tool that nobody has stays in the history, with an error as its result.
    "codex-badtool": ["first"],
    # After a fault the same bytes are sent again, and get the reply that is already there.
    "codex-f500": ["first"],
    # A full context ends the turn: nothing is sent after the error, neither a summary nor a shorter history.
    "codex-ctx": ["first"],
}


def reply_of(response: dict[str, Any]) -> dict[str, Any]:
    reply: dict[str, Any] = {"tool_calls": []}
    for item in response["output"]:
        if item["type"] == "reasoning":
            reply["reasoning"] = "".join(part["text"] for part in item["summary"])
        elif item["type"] == "message":
            reply["text"] = "".join(part["text"] for part in item["content"])
        else:
            reply["tool_calls"].append({"name": item["name"], "arguments": item["arguments"]})
    return reply


class Echo:
    """Puts this proxy's items into a recorded body, where Codex put the recorded server's."""

    def __init__(self) -> None:
        self.ours: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        self.calls: dict[str, str] = {}

    def learn(self, recorded: list[dict[str, Any]], ours: list[dict[str, Any]]) -> None:
        assert [item["type"] for item in recorded] == [item["type"] for item in ours]
        for old, new in zip(recorded, ours, strict=True):
            self.ours[old["id"]] = (old, new)
            if "call_id" in old:
                self.calls[old["call_id"]] = new["call_id"]

    def __call__(self, body: dict[str, Any]) -> dict[str, Any]:
        body = copy.deepcopy(body)
        for index, item in enumerate(body["input"]):
            if item.get("id") in self.ours:
                old, new = self.ours[item["id"]]
                # This is what makes the replay faithful: Codex sent the recorded server's item as it was.
                assert {key: value for key, value in item.items() if value is not None} == old
                body["input"][index] = new
            elif "call_id" in item:
                item["call_id"] = self.calls[item["call_id"]]
        return body


async def replay(
    name: str, server: Any, scripted: Any, post: Any, budget: Budget = WIDE, id: str = "trial", change: Any = None
) -> Any:
    recorded = exchanges(name)
    script = [reply_of(entry["response"]) for entry in recorded if entry["status"] == 200]
    # reasoning="strip": reasoning that did not come back would begin a segment.
    session = scripted([*script, {"text": "one more"}], id, budget=budget, reasoning="strip")
    address = await server.open(session)
    echo, statuses = Echo(), []
    for entry in recorded:
        body = echo(entry["body"])
        reply = await post(address.base_url, change(body) if change else body, PATH)
        statuses.append(reply.status)
        if entry["status"] == 200 and reply.status == 200:
            final = read_events(reply.body)[-1]
            assert final["type"] == "response.completed"
            echo.learn(entry["response"]["output"], final["response"]["output"])
    return session, statuses


@pytest.mark.parametrize("name", SEGMENTS)
async def test_as_many_segments_as_the_harness_makes_necessary(
    name: str, server: Any, scripted: Any, post: Any
) -> None:
    session, statuses = await replay(name, server, scripted, post)
    assert set(statuses) == {200}
    assert [str(split) for split in session.capture.splits()] == SEGMENTS[name]
    proof = session.proof()
    assert proof.holds, proof
    assert proof.untrained == {}
    assert proof.loss_tokens == session.sampled_tokens > 0
    assert session.malformed == 0


async def test_every_recorded_file_of_this_harness_is_replayed() -> None:
    assert {path.stem for path in TRAFFIC.glob("codex-*.jsonl")} == set(SEGMENTS)


def results_reversed(body: dict[str, Any]) -> dict[str, Any]:
    """The same history with every run of results in the opposite order."""
    items: list[dict[str, Any]] = []
    run: list[dict[str, Any]] = []
    for item in [*body["input"], {"type": "end"}]:
        if item["type"] == "function_call_output":
            run.insert(0, item)
        else:
            items += [*run, item]
            run = []
    return {**body, "input": items[:-1]}


async def test_results_in_another_order_do_not_split(server: Any, scripted: Any, post: Any) -> None:
    recorded = exchanges("codex-par")[1]["body"]
    assert results_reversed(recorded)["input"] != recorded["input"]
    session, _ = await replay("codex-par", server, scripted, post, change=results_reversed)
    assert [str(split) for split in session.capture.splits()] == ["first"]
    assert session.proof().holds


def summaries_dropped(body: dict[str, Any]) -> dict[str, Any]:
    """As OpenCode sends it: what it cannot read is all that is left of the reasoning."""
    return {**body, "input": [{**item, "summary": []} if "summary" in item else item for item in body["input"]]}


async def test_reasoning_comes_back_without_its_summary(server: Any, scripted: Any, post: Any) -> None:
    session, _ = await replay("codex-normal", server, scripted, post, change=summaries_dropped)
    assert [str(split) for split in session.capture.splits()] == ["first"]


async def test_retries_after_a_fault_get_the_stored_reply(server: Any, scripted: Any, post: Any) -> None:
    session, _ = await replay("codex-f500", server, scripted, post)
    faults = sum(entry["status"] != 200 for entry in exchanges("codex-f500"))
    assert session.replays == faults == 2
    assert session.turns == len(exchanges("codex-f500")) - faults


async def test_a_context_that_is_full_is_an_overflow(server: Any, scripted: Any, post: Any) -> None:
    session, _ = await replay("codex-ctx", server, scripted, post)
    limit = session.calls[-1].prompt_length
    session, statuses = await replay("codex-ctx", server, scripted, post, Budget(context=limit), "again")
    assert statuses == [entry["status"] for entry in exchanges("codex-ctx")] == [200, 200, 200, 400]
    assert session.ending == "context_overflow"
    assert not session.over
    assert session.proof().holds


async def test_what_the_policy_is_offered_of_codex_s_tools(server: Any, scripted: Any, post: Any) -> None:
    session, _ = await replay("codex-normal", server, scripted, post)
    asked = session.capture.asked[0]
    names = [tool["function"]["name"] for tool in asked.tools]
    assert names[:4] == ["exec_command", "write_stdin", "request_user_input", "view_image"]
    assert "multi_agent_v1__spawn_agent" in names
    assert asked.sampling["dropped_tools"] == ["web_search"]
    assert [message.role for message in asked.messages] == ["system", "user", "user"]

"""Budgets, retries, faults and the end of a session."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import aiohttp
import numpy as np
import pytest
from proxy_fixtures import PARSER, RENDERER, body, user

from lego_verl.capture.call import Sample
from lego_verl.policies.policy import ContextOverflow, PolicyError, Sampling
from lego_verl.proxy.budget import Budget
from lego_verl.proxy.session import Session

BUDGET = Budget(context=100_000)


class EnginePolicy:
    """An engine that does what a test tells it."""

    model = "engine"

    def __init__(self, *results: Any) -> None:
        self.results = list(results)
        self.prompts: list[list[int]] = []
        self.rooms: list[int] = []

    async def generate(self, *, session: str, prompt_ids: Sequence[int], max_tokens: int, sampling: Sampling) -> Sample:
        self.prompts.append(list(prompt_ids))
        self.rooms.append(max_tokens)
        result = self.results.pop(0)
        if isinstance(result, BaseException):
            raise result
        if callable(result):
            return await result()
        return result


def sample(text: str, finish: Any = "stop", version: int = 0, rows: int | None = None, logprobs: int = 0) -> Sample:
    ids = RENDERER.encode(text) + ([RENDERER.close_id] if finish == "stop" else [])
    return Sample(
        np.array(ids, np.int32),
        np.full(len(ids) + logprobs, -0.5, np.float32),
        np.full(len(ids), version, np.int32),
        finish,
        None if rows is None else np.full((rows, 1, 1), version, np.uint8),
    )


async def test_turns_are_counted_and_the_harness_is_stopped(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"text": "a"}], repeat="last", budget=Budget(turns=2), end_status=403)
    address = await server.open(session)
    statuses = [(await post(address.base_url, body(user(str(number))))).status for number in range(4)]
    assert statuses == [200, 200, 403, 403]
    assert (session.ending, session.turns) == ("turn_limit", 2)
    reply = await post(address.base_url, body(user("once more")))
    assert reply.json["error"] == {
        "message": "session trial is over: turn_limit", "type": "permission_error", "param": None, "code": "turn_limit",
    }  # fmt: skip


async def test_tokens_are_counted_exactly(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"text": "x" * 99}], repeat="last", budget=Budget(tokens=150))
    address = await server.open(session)
    replies = [await post(address.base_url, body(user(str(number)))) for number in range(3)]
    assert [reply.status for reply in replies] == [200, 200, 401]
    assert replies[1].json["choices"][0]["finish_reason"] == "length"
    assert session.sampled_tokens == 150
    assert session.ending == "token_limit"


async def test_time_ends_a_call_in_flight(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"text": "a", "delay": 30}], budget=Budget(seconds=0.3))
    address = await server.open(session)
    started = time.monotonic()
    reply = await post(address.base_url, body(user()))
    assert time.monotonic() - started < 1.3
    assert (reply.status, session.ending) == (401, "time_limit")


async def test_a_session_closed_in_the_middle_of_a_call_ends_within_a_second(
    server: Any, scripted: Any, post: Any, tmp_path: Path
) -> None:
    session = scripted([{"text": "a", "delay": 30}], repeat="last", budget=BUDGET)
    address = await server.open(session, socket=tmp_path / "s")
    asking = asyncio.create_task(post(address.base_url, body(user())))
    async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(str(tmp_path / "s"))) as client:
        beside = asyncio.create_task(client.post("http://x/v1/chat/completions", json=body(user("other"))))
        await asyncio.sleep(0.2)
        started = time.monotonic()
        await server.close(session.id)
        assert time.monotonic() - started < 1.0
        reply = await asking
        assert (reply.status, session.ending) == (401, "closed")
        assert (await beside).status == 401
    assert not (tmp_path / "s").exists()
    assert session.proof().calls == 0


async def test_the_same_bytes_get_the_same_reply(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"text": "a", "delay": 0.2}, {"text": "b"}], budget=BUDGET)
    address = await server.open(session)
    together = await asyncio.gather(*(post(address.base_url, body(user())) for _ in range(3)))
    later = await post(address.base_url, body(user()))
    assert len({reply.body for reply in [*together, later]}) == 1
    assert (session.turns, session.replays) == (1, 3)
    other = await post(address.base_url, body(user(), temperature=0.5))
    assert other.json["choices"][0]["message"]["content"] == "b"


async def test_what_was_gone_on_from_and_is_asked_again_is_a_new_beginning(
    server: Any, scripted: Any, post: Any
) -> None:
    """A harness that makes several attempts at its task asks the very same each time, and wants other replies."""
    session = scripted([{"text": "one"}, {"text": "two"}, {"text": "three"}, {"text": "four"}])
    address = await server.open(session)
    begin = body(user())
    first = await post(address.base_url, begin)
    assert (await post(address.base_url, begin)).json == first.json  # not used yet: a retry
    turn = first.json["choices"][0]["message"]
    await post(address.base_url, body(user(), turn, user("go on")))
    again = await post(address.base_url, begin)
    assert again.json["choices"][0]["message"]["content"] == "three"
    turn = again.json["choices"][0]["message"]
    await post(address.base_url, body(user(), turn, user("go on")))
    assert (session.turns, session.replays) == (4, 1)
    assert [call.segment for call in session.calls] == [0, 0, 1, 1]
    assert session.proof().holds
    assert session.proof().loss_tokens == session.sampled_tokens


async def test_two_agents_that_ask_the_same_are_not_each_others_retry(server: Any, scripted: Any) -> None:
    session = scripted([{"text": "one"}, {"text": "two"}])
    address = await server.open(session)
    replies = []
    async with aiohttp.ClientSession() as client:
        for agent in ("a", "b", "a"):
            headers = {"x-claude-code-agent-id": agent}
            url = f"{address.base_url}/v1/chat/completions"
            async with client.post(url, json=body(user()), headers=headers) as response:
                replies.append((await response.json())["choices"][0]["message"]["content"])
    assert replies == ["one", "two", "one"]
    assert session.proof().splits == {"subagent": 2}


@pytest.mark.parametrize("stream", [False, True])
async def test_a_client_that_goes_away_does_not_lose_the_call(
    stream: bool, server: Any, scripted: Any, post: Any
) -> None:
    session = scripted([{"text": "said once", "delay": 0.8}], budget=BUDGET)
    address = await server.open(session)
    asked = body(user(), stream=stream)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=0.3)) as client:
        with pytest.raises(asyncio.TimeoutError):
            await (await client.post(f"{address.base_url}/v1/chat/completions", json=asked)).read()
    joined = await post(address.base_url, asked)
    later = await post(address.base_url, asked)
    assert b"said once" in joined.body
    assert b"said once" in later.body
    assert (session.turns, session.replays) == (1, 2)


async def test_asking_the_same_for_ever_ends(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"text": "a"}], budget=Budget(turns=1))
    address = await server.open(session)
    statuses = [(await post(address.base_url, body(user()))).status for _ in range(40)]
    assert set(statuses[:5]) == {200}
    assert statuses[-1] == 401
    assert session.ending == "turn_limit"


async def test_a_policy_that_fails_ends_the_session_as_such(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"text": "a"}, {"error": "engine 3 is gone"}], budget=BUDGET)
    address = await server.open(session)
    turn = (await post(address.base_url, body(user()))).json["choices"][0]["message"]
    reply = await post(address.base_url, body(user(), turn, user("on")))
    assert (reply.status, reply.json["error"]["message"]) == (500, "engine 3 is gone")
    assert (session.ending, session.failure) == ("policy_failed", "engine 3 is gone")
    assert (await post(address.base_url, body(user(), turn, user("on")))).status == 401
    assert session.proof().holds


@pytest.mark.parametrize(
    ("result", "says"),
    [
        (sample("hello", logprobs=-1), "6 sampled ids came with 5 log-probabilities"),
        (sample("hello", rows=3), "expert routes"),
        (RuntimeError("a fault in the policy's code"), "a fault in the policy's code"),
        (PolicyError("no"), "no"),
    ],
)
async def test_an_incomplete_sample_or_a_fault_is_never_a_reply(
    result: Any, says: str, server: Any, scripted: Any, post: Any
) -> None:
    session = scripted([], policy=EnginePolicy(result), budget=BUDGET)
    address = await server.open(session)
    reply = await post(address.base_url, body(user()))
    assert reply.status == 500
    assert says in reply.json["error"]["message"]
    assert says in session.failure
    assert session.ending == "policy_failed"
    assert session.calls == []


async def test_an_overflow_of_the_engine_is_told_as_one_and_may_be_overcome(
    server: Any, scripted: Any, post: Any
) -> None:
    policy = EnginePolicy(ContextOverflow("maximum context length is 10"), sample("ok"))
    session = scripted([], policy=policy, budget=BUDGET)
    address = await server.open(session)
    reply = await post(address.base_url, body(user()))
    assert (reply.status, reply.json["error"]["code"]) == (400, "context_length_exceeded")
    assert session.ending == "context_overflow"
    assert (await post(address.base_url, body(user("shorter")))).status == 200
    assert session.ending is None


async def test_a_harness_that_never_compacts_is_stopped(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([], budget=Budget(context=3))
    address = await server.open(session)
    statuses = [(await post(address.base_url, body(user()))).status for _ in range(10)]
    assert statuses == [400] * 8 + [401] * 2
    assert session.ending == "context_overflow"


async def test_an_aborted_generation_goes_on_with_its_versions(server: Any, scripted: Any, post: Any) -> None:
    opening = body(user())
    probe = scripted([], "probe", policy=EnginePolicy(sample("x")), budget=BUDGET)
    prompt = (await post((await server.open(probe)).base_url, opening)).json["usage"]["prompt_tokens"]

    policy = EnginePolicy(
        sample("Hel", "aborted", version=1, rows=prompt + 2),
        Sample(*(np.empty(0, kind) for kind in (np.int32, np.float32, np.int32)), "aborted"),
        sample("lo", "stop", version=2, rows=prompt + 5),
    )
    session = scripted([], policy=policy, budget=Budget(context=prompt + 20))
    address = await server.open(session)
    reply = (await post(address.base_url, opening)).json
    assert reply["choices"][0]["message"]["content"] == "Hello"
    assert reply["choices"][0]["finish_reason"] == "stop"
    assert policy.prompts[2] == policy.prompts[0] + RENDERER.encode("Hel")
    assert policy.rooms == [20, 17, 17]
    (segment,) = session.segments()
    assert segment.versions.tolist() == [1, 1, 1, 2, 2, 2]
    assert segment.routes is not None
    assert segment.routes[:, 0, 0].tolist() == [1] * (prompt + 2) + [2] * 3
    assert session.proof().holds


async def test_an_abort_that_used_all_its_room_is_cut_there(server: Any, scripted: Any, post: Any) -> None:
    policy = EnginePolicy(sample("Hel", "aborted"))
    address = await server.open(scripted([], policy=policy, budget=BUDGET))
    reply = (await post(address.base_url, body(user(), max_tokens=3))).json
    assert reply["choices"][0]["finish_reason"] == "length"


async def test_a_generation_that_is_given_up_is_listed(server: Any, scripted: Any, post: Any) -> None:
    async def never() -> Sample:
        await asyncio.sleep(60)
        raise AssertionError

    policy = EnginePolicy(sample("Hel", "aborted"), never)
    session = scripted([], policy=policy, budget=BUDGET)
    address = await server.open(session)
    asking = asyncio.create_task(post(address.base_url, body(user())))
    await asyncio.sleep(0.2)
    await server.close(session.id)
    assert (await asking).status == 401
    assert session.proof().untrained == {"closed": 3}


async def test_a_policy_that_ignores_its_end_does_not_hold_the_session(server: Any, scripted: Any, post: Any) -> None:
    release = asyncio.Event()

    async def stubborn() -> Sample:
        while not release.is_set():
            try:
                await asyncio.wait_for(release.wait(), 5)
            except asyncio.CancelledError:
                continue
        return sample("late")

    session = scripted([], policy=EnginePolicy(stubborn), budget=BUDGET)
    address = await server.open(session)
    asking = asyncio.create_task(post(address.base_url, body(user())))
    await asyncio.sleep(0.2)
    started = time.monotonic()
    await server.close(session.id)
    assert (await asking).status == 401
    assert time.monotonic() - started < 1.0
    release.set()
    await asyncio.sleep(0.05)
    assert session.ending == "closed"


def test_a_captured_policy_needs_a_renderer() -> None:
    with pytest.raises(ValueError, match="needs a renderer and a parser"):
        Session("t", EnginePolicy(), parser=PARSER)

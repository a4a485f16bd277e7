"""Both promises hold for any sequence of what a harness and a network do, over the wire."""

from __future__ import annotations

import asyncio
from typing import Any

import aiohttp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from proxy_fixtures import PARSER, RENDERER, body, user

from lego_verl.policies.scripted import ScriptedPolicy
from lego_verl.proxy.budget import Budget
from lego_verl.proxy.server import ProxyServer
from lego_verl.proxy.session import Session

CALL = {"name": "bash", "arguments": '{"command":  "ls"}'}
SCRIPT = [
    {"text": "ok", "tool_calls": [CALL]},
    {"tool_calls": [CALL, CALL], "reasoning": "hm"},
    {"text": "no call"},
    {"tool_calls": [CALL], "cut": True},
    {"ids": [161, 70, 161, 71, 258]},
    {"text": "slow", "delay": 0.01},
]
STEPS = st.lists(
    st.sampled_from(["extend", "extend", "extend", "retry", "twice", "drop", "edit", "compact", "leave", "aside"]),
    min_size=3,
    max_size=12,
)


class Client:
    """A harness on a bad network: it counts what it was told."""

    def __init__(self, client: aiohttp.ClientSession, url: str) -> None:
        self.client, self.url = client, url
        self.history: list[dict[str, Any]] = [user()]
        self.last: dict[str, Any] | None = None
        self.number = 0

    async def ask(self, wire: dict[str, Any]) -> dict[str, Any]:
        async with self.client.post(self.url, json=wire) as response:
            assert response.status == 200, await response.text()
            return (await response.json())["choices"][0]["message"]

    async def extend(self) -> None:
        self.last = body(*self.history)
        turn = await self.ask(self.last)
        self.number += 1
        after = [
            {"role": "tool", "tool_call_id": call["id"], "content": f"out {self.number}"}
            for call in reversed(turn.get("tool_calls", []))
        ]
        self.history += [turn, *(after or [user(f"go on {self.number}")])]

    async def retry(self) -> None:
        if self.last is not None:
            assert await self.ask(self.last) == await self.ask(self.last)

    async def twice(self) -> None:
        wire = body(*self.history, user("at once"))
        one, two = await asyncio.gather(self.ask(wire), self.ask(wire))
        assert one == two

    async def aside(self) -> None:
        await asyncio.gather(*(self.ask(body(*self.history, user(text))) for text in ("this?", "that?")))

    async def drop(self) -> None:
        turns = [place for place, message in enumerate(self.history) if message["role"] == "assistant"]
        if turns:
            place = turns[len(turns) // 2]
            del self.history[place : place + 1 + len(self.history[place].get("tool_calls", []))]
            self.history.append(user("dropped"))

    async def edit(self) -> None:
        for message in self.history:
            if message["role"] == "assistant" and message.get("content"):
                message["content"] += " edited"
                return

    async def compact(self) -> None:
        self.history = [self.history[0], user(f"summary {self.number}")]

    async def leave(self) -> None:
        """Goes away in the middle of a call, and comes back with the same bytes."""
        wire = body(*self.history, user(f"leaving {self.number}"))
        try:
            await asyncio.wait_for(self.ask(wire), 0.002)
        except TimeoutError:
            await self.ask(wire)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(STEPS, st.integers(0, 5))
def test_any_sequence_keeps_both_promises(steps: list[str], offset: int) -> None:
    async def run() -> None:
        server = ProxyServer()
        await server.start()
        script = SCRIPT[offset:] + SCRIPT[:offset]
        policy = ScriptedPolicy(script, renderer=RENDERER, parser=PARSER, repeat="cycle")
        session = Session("t", policy, renderer=RENDERER, parser=PARSER, budget=Budget(context=100_000))
        address = await server.open(session)
        async with aiohttp.ClientSession() as http:
            client = Client(http, f"{address.base_url}/v1/chat/completions")
            for number, step in enumerate(steps):
                policy.version = number
                await getattr(client, step)()
        await server.stop()

        proof = session.proof()
        assert proof.holds, proof
        assert set(proof.untrained) <= {"side_call"}  # a question that is gone from what comes next was one
        segments = {segment.index: segment for segment in session.segments()}
        trained = [
            value
            for segment in segments.values()
            for value in segment.logprobs[segment.response_mask.astype(bool)].tolist()
        ]
        aside = [
            value for call in session.calls if call.segment not in segments for value in call.sample.logprobs.tolist()
        ]
        assert len(aside) == sum(proof.untrained.values())
        # The script's log-probabilities count its tokens: 1, 2, 3, ... of 1024.
        assert sorted(-value * 1024 for value in [*trained, *aside]) == list(range(1, session.sampled_tokens + 1))

    asyncio.run(run())

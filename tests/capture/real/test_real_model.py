"""The context promise, checked by a model: a token is as likely in the captured segment as when it was sampled.

Loading the model takes most of the time (about 15 s on two free cores).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import aiohttp
import numpy as np
import pytest
from real_model import SmolLM, SmolPolicy, load_smollm

from lego_verl.capture.parser import HermesParser
from lego_verl.capture.segment import TrainingSegment
from lego_verl.proxy.budget import Budget
from lego_verl.proxy.server import ProxyServer
from lego_verl.proxy.session import Session

QUESTIONS = (
    "Name three colours.", "¿Y en español? 値 👩‍👩‍👧", "def f(x):\n\treturn x  # why?", "Count to five.",
    "e\u0301 or \u00e9?", "Say שלום.", "Shorter.", "Again, but in one word.",
)  # fmt: skip
TOLERANCE = 1e-3


@pytest.fixture(scope="session")
def smollm(pytestconfig: pytest.Config) -> Iterator[SmolLM]:
    torch = pytest.importorskip("torch")
    pytest.importorskip("transformers")
    pytest.importorskip("gguf")
    threads = torch.get_num_threads()
    # With as many threads as cores, a second process on the machine makes each step wait for the slowest.
    torch.set_num_threads(1)
    yield load_smollm(pytestconfig.cache.mkdir("smollm2"))
    torch.set_num_threads(threads)


class Chat:
    """A harness that talks over the wire, with few tokens a turn."""

    def __init__(self, client: aiohttp.ClientSession, url: str) -> None:
        self.client, self.url = client, url
        self.history: list[dict[str, Any]] = [{"role": "system", "content": "You are brief."}]

    async def ask(self, text: str) -> None:
        self.history.append({"role": "user", "content": text})
        body = {"model": "policy", "messages": self.history, "max_tokens": 10}
        async with self.client.post(self.url, json=body) as response:
            assert response.status == 200, await response.text()
            self.history.append((await response.json())["choices"][0]["message"])


@pytest.fixture(scope="session")
def spoken(smollm: SmolLM) -> Session:
    """Eight turns, then a turn that the harness has changed and another: two segments."""
    import asyncio

    session = Session(
        "t", SmolPolicy(smollm), renderer=smollm.renderer, parser=HermesParser(), budget=Budget(context=2000)
    )

    async def speak() -> None:
        server = ProxyServer()
        await server.start()
        address = await server.open(session)
        async with aiohttp.ClientSession() as client:
            chat = Chat(client, f"{address.base_url}/v1/chat/completions")
            for question in QUESTIONS:
                await chat.ask(question)
            chat.history[2]["content"] = "Red, green and blue."
            await chat.ask("And a fourth?")
            await chat.ask("And a fifth?")
        await server.stop()

    asyncio.run(speak())
    return session


def differences(smollm: SmolLM, segment: TrainingSegment, ids: list[int] | None = None) -> np.ndarray:
    """How far the captured log-probabilities are from the model's, at every token with loss."""
    fresh = smollm.logprobs(segment.ids.tolist() if ids is None else ids)[len(segment.prompt_ids) - 1 :]
    mask = segment.response_mask.astype(bool)
    return np.abs(fresh - segment.logprobs)[mask]


def test_every_loss_token_is_as_likely_as_when_it_was_sampled(smollm: SmolLM, spoken: Session) -> None:
    proof, segments = spoken.proof(), spoken.segments()
    assert proof.holds
    assert [str(segment.reason) for segment in segments] == ["first", "edited_turn"]
    assert proof.calls == len(QUESTIONS) + 2
    assert proof.loss_tokens == proof.sampled_tokens == spoken.sampled_tokens > 20
    for segment in segments:
        assert differences(smollm, segment).max() < TOLERANCE
    assert isinstance(spoken.policy, SmolPolicy)
    assert spoken.policy.reused > len(segments[0].prompt_ids)


def test_another_context_is_seen_by_the_model(smollm: SmolLM, spoken: Session) -> None:
    """So that the test above cannot hold for want of power: one token of the question is another one."""
    segment = spoken.segments()[0]
    ids = segment.ids.tolist()
    place = len(segment.prompt_ids) - 8
    ids[place] = smollm.renderer.encode(" elephants")[0]
    assert ids[place] != segment.ids[place]
    assert differences(smollm, segment, ids).max() > 100 * TOLERANCE


def test_another_turn_of_the_same_segment_is_seen_too(smollm: SmolLM, spoken: Session) -> None:
    """The second segment's tokens in the first one's context: what a capture without splits would train."""
    first, second = spoken.segments()
    count = len(second.response_ids)
    ids = [*first.ids.tolist(), *second.response_ids.tolist()]
    fresh = smollm.logprobs(ids)[-count:]
    wrong = np.abs(fresh - second.logprobs)[second.response_mask.astype(bool)]
    assert wrong.max() > 100 * TOLERANCE

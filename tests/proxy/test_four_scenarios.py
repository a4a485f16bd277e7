"""Six turns, whatever the harness does at the fourth: every sampled token is trained as it was sampled.

The sampled ids are deliberately not what the tokenizer makes of their text, and every log-probability is another, so
that nothing that was encoded again, filled in or left out could pass.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pytest
from proxy_fixtures import PARSER, RENDERER, body, user

from lego_verl.capture.call import Sample
from lego_verl.policies.scripted import ScriptedPolicy

TURNS, SAMPLED = 6, 128


def twisted_call(number: int) -> list[int]:
    """``SAMPLED`` ids that spell a tool call byte by byte, its markers too, where the tokenizer has one id for each."""
    start, end = f'<tool_call>\n{{"name": "bash", "arguments": {{"command":  "step {number} ', '"}}\n</tool_call>'
    text = start + "x" * (SAMPLED - 1 - len(start) - len(end)) + end
    ids = [token for char in text for token in RENDERER.encode(char)]
    assert RENDERER.decode(ids) == text
    assert RENDERER.encode(text) != ids
    return [*ids, RENDERER.close_id]


class Remembering(ScriptedPolicy):
    """Remembers what it was sent, and what it sampled."""

    def __init__(self) -> None:
        replies = [{"ids": twisted_call(number)} for number in range(TURNS)]
        super().__init__(replies, renderer=RENDERER, parser=PARSER)
        self.sent: list[list[int]] = []
        self.samples: list[Sample] = []

    async def answer(self, request: Any, *, prompt_ids: Sequence[int], **options: Any) -> Sample:
        sample = await super().answer(request, prompt_ids=prompt_ids, **options)
        self.sent.append(list(prompt_ids))
        self.samples.append(sample)
        return sample


def respelt(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    call = history[1]["tool_calls"][0]["function"]
    assert '":  "' in call["arguments"]
    call["arguments"] = orjson.dumps(orjson.loads(call["arguments"])).decode()
    return history


def compacted(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [history[0], user("Summary: three steps were made.")]


def changed(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    history[1]["tool_calls"][0]["function"]["arguments"] = '{"command": "something else"}'
    return history


@pytest.mark.parametrize(
    ("change", "splits"),
    [
        (list, ["first"]),
        (respelt, ["first"]),
        (compacted, ["first", "compacted"]),
        (changed, ["first", "edited_turn"]),
    ],
    ids=["normal", "arguments written anew", "compacted", "a turn changed under its id"],
)
async def test_all_sampled_tokens_are_trained(
    change: Any, splits: list[str], server: Any, scripted: Any, post: Any
) -> None:
    policy = Remembering()
    session = scripted([], policy=policy)
    address = await server.open(session)
    history: list[dict[str, Any]] = [user()]
    for number in range(TURNS):
        if number == 3:
            history = change(history)
        reply = await post(address.base_url, body(*history))
        turn = reply.json["choices"][0]["message"]
        result = {"role": "tool", "tool_call_id": turn["tool_calls"][0]["id"], "content": f"done {number}"}
        history += [turn, result]

    assert [str(split) for split in session.capture.splits()] == splits
    segments = session.segments()
    trained = [
        (int(token), float(logprob))
        for segment in segments
        for token, logprob, loss in zip(segment.response_ids, segment.logprobs, segment.response_mask, strict=True)
        if loss
    ]
    sampled = [
        (int(token), float(logprob))
        for sample in policy.samples
        for token, logprob in zip(sample.ids, sample.logprobs, strict=True)
    ]
    assert len(trained) == TURNS * SAMPLED == 768
    assert trained == sampled
    assert len({logprob for _, logprob in trained}) == 768
    for call, sent in zip(session.calls, policy.sent, strict=True):
        ids = segments[call.segment].ids.tolist()
        assert ids[: len(sent)] == sent
        assert ids[len(sent) : len(sent) + SAMPLED] == policy.samples[call.index].ids.tolist()
    assert session.proof().holds

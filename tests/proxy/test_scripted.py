"""Scripts, and what is wrong with them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from proxy_fixtures import PARSER, RENDERER, body, user

from lego_verl.capture.message import Message
from lego_verl.policies.policy import Policy, RequestPolicy, Sampling
from lego_verl.policies.scripted import ScriptedPolicy, ScriptError
from lego_verl.proxy.budget import Budget

BUDGET = Budget(context=100_000)


def policy(script: Any, **options: Any) -> ScriptedPolicy:
    return ScriptedPolicy(script, renderer=RENDERER, parser=PARSER, **options)


async def content(post: Any, address: Any, wire: Any) -> str:
    return (await post(address.base_url, wire)).json["choices"][0]["message"]["content"]


async def test_rules_and_turns(server: Any, scripted: Any, post: Any) -> None:
    script = [{"text": "one"}, {"when": r"help\W*\Z", "text": "helped"}, {"text": "two"}]
    address = await server.open(scripted(script, budget=BUDGET))
    texts = [await content(post, address, body(user(text))) for text in ("a", "help!", "b", "help?")]
    assert texts == ["one", "helped", "two", "helped"]
    assert (await post(address.base_url, body(user("c")))).status == 500


async def test_a_callable_sees_the_messages(server: Any, scripted: Any, post: Any) -> None:
    seen: list[Message] = []

    def answer(messages: Any) -> dict[str, Any]:
        seen.extend(messages)
        return {"text": messages[-1].text.upper()}

    address = await server.open(scripted(answer, budget=BUDGET))
    assert await content(post, address, body(user("abc"))) == "ABC"
    assert [message.role for message in seen] == ["system", "user"]


async def test_repeats() -> None:
    for repeat, texts in (("last", "abbbb"), ("cycle", "ababa")):
        scripted = policy([{"text": "a"}, {"text": "b"}], repeat=repeat)
        said = [
            await scripted.generate(session="s", prompt_ids=[1], max_tokens=9, sampling=Sampling()) for _ in range(5)
        ]
        assert "".join(RENDERER.decode(sample.ids[:1].tolist()) for sample in said) == texts


async def test_tokens_are_told_apart_and_know_their_version() -> None:
    scripted = policy([{"text": "abc"}], repeat="last", version=4)
    first = await scripted.generate(session="s", prompt_ids=[1], max_tokens=99, sampling=Sampling())
    scripted.version = 5
    second = await scripted.generate(session="s", prompt_ids=[1], max_tokens=99, sampling=Sampling())
    logprobs = [*first.logprobs.tolist(), *second.logprobs.tolist()]
    assert len(set(logprobs)) == 8
    assert max(logprobs) < 0
    assert (set(first.versions.tolist()), set(second.versions.tolist())) == ({4}, {5})


async def test_raw_and_ids_are_sampled_as_they_are() -> None:
    scripted = policy(
        [{"raw": "<think>x"}, {"ids": [70, 71, 72]}, {"raw": "done<|im_end|>"}, {"text": "abc", "cut": 2}]
    )
    samples = [
        await scripted.generate(session="s", prompt_ids=[1], max_tokens=99, sampling=Sampling()) for _ in range(4)
    ]
    assert RENDERER.decode(samples[0].ids.tolist()) == "<think>x<|im_end|>"
    assert (samples[1].ids.tolist(), samples[1].finish) == ([70, 71, 72], "length")
    assert RENDERER.decode(samples[2].ids.tolist()) == "done<|im_end|>"
    assert (RENDERER.decode(samples[3].ids.tolist()), samples[3].finish) == ("ab", "length")


def test_it_is_a_policy_of_both_kinds() -> None:
    assert isinstance(policy([]), Policy)
    assert isinstance(policy([]), RequestPolicy)


async def test_a_file_of_replies(tmp_path: Path) -> None:
    file = tmp_path / "script.jsonl"
    lines = [{"text": "a"}, {"tool_calls": [{"name": "bash", "arguments": '{"command":  "ls"}'}]}]
    file.write_text("\n".join(json.dumps(line) for line in lines) + "\n\n")
    scripted = policy(file)
    samples = [
        await scripted.generate(session="s", prompt_ids=[1], max_tokens=99, sampling=Sampling()) for _ in range(2)
    ]
    assert '"arguments": {"command":  "ls"}' in RENDERER.decode(samples[1].ids.tolist())


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("{", "line 2 is not JSON"),
        ("[]", "line 2 is not an object"),
        ('{"txt": "a"}', r"line 2 has unknown keys \['txt'\]"),
        ('{"text": 3}', "line 2: text is not a string"),
        ('{"tool_calls": [{"name": "bash"}]}', "line 2: tool_calls"),
        ('{"ids": []}', "line 2: ids"),
        ('{"when": "("}', "line 2: when is not a pattern"),
    ],
)
def test_a_script_that_is_none_is_named_by_its_line(line: str, says: str, tmp_path: Path) -> None:
    file = tmp_path / "script.jsonl"
    file.write_text('{"text": "a"}\n' + line)
    with pytest.raises(ScriptError, match=says):
        policy(file)
    with pytest.raises(ScriptError, match="cannot be read"):
        policy(tmp_path / "none.jsonl")

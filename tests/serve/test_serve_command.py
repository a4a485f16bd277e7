"""``python -m lego_verl.serve`` as a process, and a client from outside."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
from serve_helpers import SCRIPT, serving, verb, write_script

from lego_verl.capture.record import read_recording
from lego_verl.policies.scripted import ScriptedPolicy
from lego_verl.proxy.server import ProxyServer
from lego_verl.proxy.session import Session

TOOLS: Any = [{"type": "function", "function": {"name": "bash", "parameters": {"type": "object", "properties": {}}}}]


async def get(url: str) -> tuple[int, Any]:
    async with aiohttp.ClientSession() as client, client.get(url) as response:
        return response.status, await response.json()


async def converse(base_url: str, question: str) -> list[str]:
    """Two turns, as a harness would have them; the texts of the replies."""
    async with openai.AsyncOpenAI(base_url=f"{base_url}/v1", api_key="k", max_retries=0) as client:
        messages: list[Any] = [{"role": "user", "content": question}]
        first = (await client.chat.completions.create(model="m", messages=messages, tools=TOOLS)).choices[0].message
        assert first.tool_calls is not None
        messages += [
            first.model_dump(exclude_none=True),
            {"role": "tool", "tool_call_id": first.tool_calls[0].id, "content": f"out of {question}"},
        ]
        second = (await client.chat.completions.create(model="m", messages=messages, tools=TOOLS)).choices[0].message
        return [str(first.content), str(second.content)]


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGTERM])
async def test_sessions_stand_apart_are_proved_and_written(tmp_path: Path, how: signal.Signals) -> None:
    script = write_script(tmp_path / "script.jsonl")
    async with serving(tmp_path, f"policy.script={script}", "out=recorded") as process:
        assert process.url.startswith("http://127.0.0.1:")
        a, b = f"{process.url}/s/a", f"{process.url}/s/b"
        assert (await get(f"{a}/proof"))[0] == 404
        assert await converse(a, "one") == ["ok é", "done"]
        assert await converse(b, "two") == ["ok é", "done"]
        proofs = [(await get(f"{base}/proof"))[1] for base in (a, b)]
        listed = (await get(process.url))[1]["sessions"]
        assert (await get(f"{process.url}/sessions"))[1]["sessions"] == listed
        process.send_signal(how)
        out, errors = await process.communicate()
    assert (process.returncode, errors) == (0, b"")
    assert f"ANTHROPIC_BASE_URL={process.url}/s/SESSION" in out.decode()
    assert [(each["session"], each["turns"], each["ending"]) for each in listed] == [("a", 2, None), ("b", 2, None)]
    for name, proof, question in (("a", proofs[0], "one"), ("b", proofs[1], "two")):
        assert {key: proof[key] for key in ("calls", "segments", "splits", "untrained", "provenance", "context")} == {
            "calls": 2, "segments": 1, "splits": {"first": 1}, "untrained": {}, "provenance": 1.0, "context": 1.0,
        }  # fmt: skip
        recording = read_recording(tmp_path / "recorded" / name)
        assert recording.proof().as_dict() == proof
        assert proof["loss_tokens"] == proof["sampled_tokens"] == sum(len(call.sample.ids) for call in recording.calls)
        said = [message.text for asked in recording.asked for message in asked.messages]
        assert said == [question, f"out of {question}"]
        assert json.loads((tmp_path / "recorded" / name / "proof.json").read_text()) == proof


async def test_budgets_repeat_and_an_ended_session_that_is_still_read(tmp_path: Path) -> None:
    script = write_script(tmp_path / "script.jsonl", [{"text": "again"}])
    options = ["policy.repeat=last", "budget.turns=2", "sessions=1"]
    async with serving(tmp_path, f"policy.script={script}", *options) as process:
        base = f"{process.url}/s/a"
        async with openai.AsyncOpenAI(base_url=f"{base}/v1", api_key="k", max_retries=0) as client:
            for question in ("one", "two"):
                reply = await client.chat.completions.create(
                    model="m", messages=[{"role": "user", "content": question}]
                )
                assert reply.choices[0].message.content == "again"
            with pytest.raises(openai.AuthenticationError, match="turn_limit"):
                await client.chat.completions.create(model="m", messages=[{"role": "user", "content": "three"}])
        assert (await get(f"{base}/proof"))[1]["calls"] == 2
        assert (await get(process.url))[1]["sessions"][0]["ending"] == "turn_limit"
        status, error = await get(f"{process.url}/s/b/v1/models")
        assert (status, error["error"]["code"]) == (429, "too_many_sessions")
        process.send_signal(signal.SIGINT)
        await process.communicate()
    assert process.returncode == 0


async def test_an_endpoint_stands_behind_it(tmp_path: Path) -> None:
    from serve_helpers import PARSER, RENDERER

    server = ProxyServer()
    await server.start()
    policy = ScriptedPolicy(SCRIPT, renderer=RENDERER, parser=PARSER)
    address = await server.open(Session("there", policy, renderer=RENDERER, parser=PARSER))
    arguments = ("policy=endpoint", f"policy.base_url={address.base_url}/v1", "policy.model=m", "out=recorded")
    try:
        async with serving(tmp_path, *arguments) as process:
            assert await converse(f"{process.url}/s/a", "one") == ["ok é", "done"]
            proof = (await get(f"{process.url}/s/a/proof"))[1]
            process.send_signal(signal.SIGINT)
            _, errors = await process.communicate()
    finally:
        await server.stop()
    assert (process.returncode, errors) == (0, b"")
    assert (proof["calls"], proof["captured"]) == (2, False)
    assert list(proof["untrained"]) == ["not_captured"]
    assert [path.name for path in (tmp_path / "recorded/a").iterdir()] == ["proof.json"]


@pytest.mark.parametrize(
    ("arguments", "code", "says"),
    [
        ([], 2, "policy.script=FILE"),
        (["policy.script=/nowhere.jsonl"], 2, "/nowhere.jsonl cannot be read"),
        (["policy.script=oracle"], 2, "policy.script=oracle"),
        (["policy.script=nop", "policy.repeat=ever"], 2, "ever"),
        (["policy.script=nop", "policy.tool_parser=none"], 2, "policy.tool_parser=none"),
        (["policy.script=nop", "policy.template=x"], 2, "policy.tokenizer"),
        (["policy.script=nop", "policy.tokenizer=/nowhere/tokenizer.json"], 2, "/nowhere/tokenizer.json"),
        (["policy=tiny"], 2, "cannot answer without verl"),
        (["policy=endpoint"], 2, "policy.base_url"),
        (["policy=replay"], 2, "policy.recording"),
        (["policy=replay", "policy.recording=/"], 2, "holds no readable recording"),
        (["policy.script=nop", "port=high"], 2, "port"),
        (["policy.script=nop", "port=99999"], 2, "port=99999"),
        (["policy.script=nop", "sessions=0"], 2, "sessions=0"),
        (["policy.script=nop", "prot=1"], 2, "did you mean port?"),
        (["policy.script=nop", "+more=1"], 2, "more"),
        (["policy.script=nop", "host=203.0.113.7"], 1, "host=203.0.113.7"),
    ],
)
def test_what_cannot_be_is_one_plain_line(
    arguments: list[str], code: int, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    from lego_verl.serve.__main__ import main

    assert main(arguments) == code
    out, errors = capsys.readouterr()
    assert out == ""
    assert errors.startswith("lego_verl: ")
    assert says in errors
    assert errors.count("\n") == 1


async def test_a_bad_recipe_ends_the_process_with_2(tmp_path: Path) -> None:
    code, out, errors = await verb("lego_verl.serve", "policy=replay", cwd=tmp_path)
    assert (code, out) == (2, "")
    assert errors.count("\n") == 1


def test_neither_verl_nor_torch_is_imported() -> None:
    modules = "lego_verl.serve.__main__, lego_verl.replay.__main__, lego_verl.proof.__main__"
    program = f"import sys, {modules}; print([m for m in ('verl', 'torch', 'ray', 'litellm') if m in sys.modules])"
    assert subprocess.run([sys.executable, "-c", program], capture_output=True, check=True).stdout == b"[]\n"

"""A recording derived again: equal when it is whole, and not when anything of it was changed."""

from __future__ import annotations

import json
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import aiohttp
import openai
import pytest
from serve_helpers import (
    RENDERER,
    SCRIPT,
    TOOLS,
    Recorder,
    bash_text,
    record_everything,
    rewrite_calls,
    rewrite_tokens,
    serving,
    write_script,
)
from tokenizers import Tokenizer

from lego_verl.capture.bytelevel import byte_tokenizer
from lego_verl.capture.chatml import CHATML_TEMPLATE
from lego_verl.capture.message import Message
from lego_verl.capture.record import read_recording, write_recording
from lego_verl.capture.render import TemplateRenderer
from lego_verl.capture.session import SessionCapture
from lego_verl.replay.__main__ import derived, main
from lego_verl.replay.derive import derive
from lego_verl.replay.renderer import RendererError, renderer_of


@pytest.fixture
def trial(tmp_path: Path) -> Path:
    record_everything(tmp_path / "trial")
    return tmp_path / "trial"


def forget_renderer(lines: list[Any]) -> None:
    lines[0]["made_with"]["renderer"] = "0" * 16


def test_a_whole_recording_comes_out_as_it_is(trial: Path, capsys: pytest.CaptureFixture[str]) -> None:
    recording = read_recording(trial)
    assert [str(split) for split in recording.splits] == [
        "first", "dropped_turn", "side_call", "subagent", "dropped_turn",
    ]  # fmt: skip
    assert [asked.after for asked in recording.asked] == [0, 1, 1, 3, 4, 5]
    derivation = derived(trial)
    assert derivation.problems == []
    assert (derivation.rendered, derivation.parsed) == (True, True)
    assert [(call.prompt, call.reply) for call in derivation.calls] == [(True, True)] * 6
    assert derivation.proof == recording.proof()
    assert derivation.proof.holds
    assert derivation.proof.untrained == {"closed": 4, "side_call": len(recording.calls[3].sample.ids)}
    assert main([str(trial)]) == 0
    assert "came out as they were recorded, id for id" in capsys.readouterr().out


def test_where_the_renderer_is_not_known_prompts_are_held_against_their_digests(
    trial: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rewrite_calls(trial, forget_renderer)
    derivation = derived(trial)
    assert derivation.problems == []
    assert not derivation.rendered
    # Of the side call nobody kept the prompt: it is not trained.
    assert [call.prompt for call in derivation.calls] == [True, True, True, None, True, True]
    assert main([str(trial)]) == 0
    out = capsys.readouterr().out
    assert "what rendered them is not known here" in out
    assert "1 of untrained segments are not recorded" in out


def test_a_recording_that_says_nothing_of_how_it_was_made(trial: Path) -> None:
    def older(lines: list[Any]) -> None:
        del lines[0]["made_with"]
        for line in lines[1:]:
            line["asked"].pop("after")

    rewrite_calls(trial, older)
    derivation = derived(trial)
    assert (derivation.rendered, derivation.parsed) == (False, False)
    assert derivation.problems == []


def shift(name: str, by: float = 1, place: int = 3) -> Callable[[dict[str, Any]], None]:
    def change(arrays: dict[str, Any]) -> None:
        arrays[name][place] += by

    return change


@pytest.mark.parametrize("known", [True, False], ids=["rendered again", "from its ids"])
@pytest.mark.parametrize(
    ("change", "says"),
    [
        (shift("call_ids"), "segment 0: response_ids"),
        (shift("response_ids_0"), "segment 0: response_ids"),
        (shift("prompt_ids_0"), "prompt"),
        (shift("call_logprobs", -1.0), "segment 0: logprobs differ first at 3"),
        (shift("logprobs_0", -1.0), "segment 0: logprobs differ first at 3"),
        (shift("call_versions"), "segment 0: versions differ first at 3"),
        (lambda arrays: arrays["response_mask_0"].__setitem__(3, 0), "segment 0: response_mask differ first at 3"),
        (lambda arrays: arrays["response_mask_0"].__setitem__(3, 0), "the proof is"),
    ],
)
def test_changed_tokens_are_seen(trial: Path, change: Any, says: str, known: bool) -> None:
    rewrite_tokens(trial, change)
    if not known:
        rewrite_calls(trial, forget_renderer)
    derivation = derived(trial)
    assert derivation.rendered == known
    assert any(says in problem for problem in derivation.problems), derivation.problems
    assert main([str(trial)]) == 1


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda lines: lines[1]["asked"]["messages"][1].update(text="Break it."), "call 0: its prompt is not the one"),
        (lambda lines: lines[2]["asked"]["messages"][0].update(text="c.py"), "call 1: its prompt is not the one"),
        (lambda lines: lines[1]["asked"]["tools"][0]["function"].update(name="zsh"), "call 0: its prompt is not the"),
        (lambda lines: lines[3].update(prompt_digest="00" * 16), "call 2: its prompt is not the one"),
        (lambda lines: lines[2]["reply"].update(text="other"), "call 1: what was sampled reads otherwise"),
        (lambda lines: lines[1].update(text="other"), "call 0: what was sampled has another text"),
        (lambda lines: lines[6]["asked"].pop("stop"), "call 5: what was sampled reads otherwise"),
        (lambda lines: lines[0]["splits"].__setitem__(4, "compacted"), "recorded first, dropped_turn"),
        (lambda lines: lines[5].update(segment=0), "call 4"),
        (lambda lines: lines[0]["lost"].clear(), ""),
    ],
)
def test_changed_words_are_seen(trial: Path, change: Any, says: str) -> None:
    (trial / "trial.json").write_text(json.dumps({"proof": read_recording(trial).proof().as_dict()}))
    assert derived(trial).equal
    rewrite_calls(trial, change)
    problems = derived(trial).problems
    assert any(says in problem for problem in problems), problems
    assert main([str(trial)]) == 1


def test_a_record_that_says_another_proof_is_named(trial: Path, capsys: pytest.CaptureFixture[str]) -> None:
    proof = read_recording(trial).proof().as_dict()
    (trial / "trial.json").write_text(json.dumps({"proof": {**proof, "loss_tokens": 1}}))
    assert main([str(trial)]) == 1
    assert "trial.json says loss_tokens 1" in capsys.readouterr().out


@pytest.mark.parametrize(
    "spoil",
    [
        lambda trial: shutil.rmtree(trial),
        lambda trial: (trial / "tokens.npz").unlink(),
        lambda trial: (trial / "tokens.npz").write_bytes((trial / "tokens.npz").read_bytes()[:-40]),
        lambda trial: (trial / "calls.jsonl").write_text(""),
        lambda trial: (trial / "calls.jsonl").write_text("[]\n"),
        lambda trial: rewrite_calls(trial, lambda lines: lines[0].pop("splits")),
        lambda trial: rewrite_calls(trial, lambda lines: lines[2].pop("reply")),
        lambda trial: rewrite_calls(trial, lambda lines: lines.pop(2)),
        lambda trial: rewrite_calls(trial, lambda lines: lines[2]["asked"].update(kept=9)),
        lambda trial: (trial / "trial.json").write_text("{}"),
    ],
)
def test_what_is_no_recording_is_one_plain_line(
    trial: Path, spoil: Callable[[Path], Any], capsys: pytest.CaptureFixture[str]
) -> None:
    spoil(trial)
    assert main([str(trial)]) == 2
    out, errors = capsys.readouterr()
    assert (out, errors.count("\n")) == ("", 1), errors
    assert errors.startswith("lego_verl: ")


def test_expert_routes_are_derived_as_well(tmp_path: Path) -> None:
    import numpy as np

    recorder = Recorder()
    original: Any = SessionCapture.commit

    def routed(self: SessionCapture, prepared: Any, sample: Any, **options: Any) -> Any:
        from dataclasses import replace

        rows = len(prepared.prompt_ids) + len(sample.ids) - 1
        routes = np.arange(rows * 2, dtype=np.int16).reshape(rows, 1, 2)
        return original(self, prepared, replace(sample, routes=routes), **options)

    recorder.capture.commit = routed.__get__(recorder.capture)  # type: ignore[method-assign]
    turn = recorder.ask(Message("user", "x"), says=bash_text("ls"))
    recorder.ask(Message("user", "x"), turn, Message("tool", "y", tool_call_id=turn.tool_calls[0].id), says="ok")
    write_recording(tmp_path, recorder.capture)
    assert derived(tmp_path).problems == []
    rewrite_tokens(tmp_path, lambda arrays: arrays["routes_0"].__setitem__((2, 0, 1), 9))
    assert derived(tmp_path).equal  # the segment's are the only ones that are kept
    rewrite_tokens(tmp_path, lambda arrays: arrays.update(routes_0=arrays["routes_0"][:-1]))
    assert not derived(tmp_path).equal


def test_a_tokenizer_of_ones_own_is_taken_only_if_it_is_the_one(tmp_path: Path) -> None:
    template = CHATML_TEMPLATE.replace("# Tools", "# Helpers")
    record_everything(tmp_path / "trial", TemplateRenderer(byte_tokenizer(), template))
    tokenizer = tmp_path / "tokenizer.json"
    byte_tokenizer().save(str(tokenizer))
    assert Tokenizer.from_file(str(tokenizer)).get_vocab_size() > 256
    assert not derived(tmp_path / "trial").rendered
    (tmp_path / "chat_template.jinja").write_text(template)
    derivation = derived(tmp_path / "trial", tokenizer)
    assert (derivation.rendered, derivation.problems) == (True, [])
    (tmp_path / "other.jinja").write_text(CHATML_TEMPLATE)
    with pytest.raises(RendererError, match="another tokenizer or template"):
        derived(tmp_path / "trial", tokenizer, tmp_path / "other.jinja")
    assert main([str(tmp_path / "trial"), "--tokenizer", str(tmp_path / "nothing.json")]) == 2


def test_a_run_s_own_tokenizer_is_found_beside_its_trials(tmp_path: Path) -> None:
    folder = tmp_path / "run/trials/0001/trial"
    template = CHATML_TEMPLATE.replace("# Tools", "# Helpers")
    record_everything(folder, TemplateRenderer(byte_tokenizer(), template))
    assert renderer_of(read_recording(folder), folder) is None
    (tmp_path / "run/policy").mkdir()
    byte_tokenizer().save(str(tmp_path / "run/policy/tokenizer.json"))
    (tmp_path / "run/policy/chat_template.jinja").write_text(template)
    recording = read_recording(folder)
    renderer = renderer_of(recording, folder)
    assert renderer is not None
    assert derive(recording, renderer).problems == []


async def test_a_recorded_session_is_served_again(tmp_path: Path) -> None:
    """Recorded by the serve verb, replayed by it: to the same harness, and to one that does something else."""
    script = write_script(tmp_path / "script.jsonl")

    async def harness(base_url: str, output: str) -> list[Any]:
        async with openai.AsyncOpenAI(base_url=f"{base_url}/v1", api_key="k", max_retries=0) as client:
            messages: list[Any] = [{"role": "system", "content": "S"}, {"role": "user", "content": "Fix it."}]
            tools: Any = [{"type": "function", "function": {**TOOLS[0]["function"], "parameters": {}}}]
            first = await client.chat.completions.create(model="m", messages=messages, tools=tools)
            turn = first.choices[0].message
            assert turn.tool_calls is not None
            result = {"role": "tool", "tool_call_id": turn.tool_calls[0].id, "content": output}
            messages += [turn.model_dump(exclude_none=True), result]
            second = await client.chat.completions.create(model="m", messages=messages, tools=tools)
            return [turn.content, turn.tool_calls[0].function.arguments, second.choices[0].message.content]

    async with serving(tmp_path, f"policy.script={script}", "out=first") as process:
        said = await harness(f"{process.url}/s/a", "a.py")
        process.send_signal(signal.SIGINT)
        await process.communicate()
    assert said == ["ok é", '{"command":"ls"}', SCRIPT[1]["text"]]
    assert main([str(tmp_path / "first/a")]) == 0

    arguments = (str(tmp_path / "first/a"), "--serve", "out=second")
    async with serving(tmp_path, *arguments, module="lego_verl.replay") as process:
        assert await harness(f"{process.url}/s/same", "a.py") == said
        assert await harness(f"{process.url}/s/other", "b.py") == said
        async with aiohttp.ClientSession() as client:
            body = {"messages": [{"role": "user", "content": "more"}]}
            async with client.post(f"{process.url}/s/other/v1/chat/completions", json=body) as response:
                assert response.status == 500
                assert "used up after 2 calls" in await response.text()
        process.send_signal(signal.SIGINT)
        _, errors = await process.communicate()
    first, same, other = (read_recording(tmp_path / name) for name in ("first/a", "second/same", "second/other"))
    for recording in (same, other):
        assert [call.sample.ids.tolist() for call in recording.calls] == [c.sample.ids.tolist() for c in first.calls]
        assert [call.sample.logprobs.tolist() for call in recording.calls] == [
            call.sample.logprobs.tolist() for call in first.calls
        ]
        assert recording.proof().holds
    assert [call.prompt_digest for call in same.calls] == [call.prompt_digest for call in first.calls]
    assert other.calls[1].prompt_digest != first.calls[1].prompt_digest
    assert (tmp_path / "second/same/differences.jsonl").read_text() == ""
    (found,) = (json.loads(line) for line in (tmp_path / "second/other/differences.jsonl").read_text().splitlines())
    assert (found["call"], found["message"]) == (1, 3)
    assert errors.decode() == "session other: call 1, message 3: tool text is b.py, recorded a.py\n"


async def test_what_cannot_be_rendered_is_not_served(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    record_everything(tmp_path / "it's", TemplateRenderer(byte_tokenizer(), CHATML_TEMPLATE.replace("Call", "Use")))
    assert main([str(tmp_path / "it's"), "--serve"]) == 2
    errors = capsys.readouterr().err
    assert "policy.tokenizer=tokenizer.json" in errors
    assert str(tmp_path / "it's") in errors


def test_the_byte_renderer_is_told_from_others_by_what_it_does() -> None:
    from lego_verl.capture.bytelevel import byte_renderer
    from lego_verl.capture.fingerprint import fingerprint

    assert fingerprint(byte_renderer()) == fingerprint(RENDERER)
    assert fingerprint(byte_renderer(CHATML_TEMPLATE.replace("Call", "Use"))) != fingerprint(RENDERER)

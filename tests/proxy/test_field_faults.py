"""Faults that users of such systems met, by the number under which they are listed, and how this one behaves.

The list: two encodings of one string (1), templates that do not only add (2), reasoning stripped from history (3),
two names for it (4), a break of contiguity (5), ids lost in a stream (6), a retry sampled again (7), generation aborted
by a weight update (8), one trial over many versions (9), malformed tool JSON (10), routes overwritten (11).
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from proxy_fixtures import PARSER, RENDERER, body, user
from tokenizers import Tokenizer

from lego_verl.capture.bytelevel import byte_tokenizer
from lego_verl.capture.call import Sample
from lego_verl.capture.chatml import CHATML_TEMPLATE
from lego_verl.capture.message import Message, ToolCall
from lego_verl.capture.parser import ParsedCall
from lego_verl.capture.render import TemplateRenderer
from lego_verl.capture.template import TemplateError
from lego_verl.capture.versions import VersionSpan, version_span
from lego_verl.policies.policy import Sampling
from lego_verl.policies.scripted import ScriptedPolicy
from lego_verl.proxy.budget import Budget
from lego_verl.proxy.session import Session
from lego_verl.trial.ledger import Ledger
from lego_verl.trial.outcome import Outcome, Treatment

BUDGET = Budget(context=100_000)
CALL = {"name": "bash", "arguments": {"command": "ls"}}
# Reasoning goes from a turn once somebody has asked again.
STRIPPING = CHATML_TEMPLATE.replace(
    "{%- if message.reasoning_content %}",
    "{%- set asked_again = messages[loop.index0 :] | selectattr('role', 'equalto', 'user') | list %}"
    "{%- if message.reasoning_content and not asked_again %}",
)
assert STRIPPING != CHATML_TEMPLATE
RENDERERS = [TemplateRenderer(byte_tokenizer(), template) for template in (CHATML_TEMPLATE, STRIPPING)]


class Engine:
    """An engine that remembers what it was sent, and answers each call as a test says."""

    model = "engine"

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.prompts: list[list[int]] = []

    async def generate(self, *, session: str, prompt_ids: Sequence[int], max_tokens: int, sampling: Sampling) -> Sample:
        self.prompts.append(list(prompt_ids))
        answer = self.answers.pop(0)
        return await answer(list(prompt_ids)) if callable(answer) else answer


def sample(text: str, finish: Any = "stop", version: int = 0, lost: int = 0, routes: Any = None) -> Sample:
    """A text as sampled; ``lost`` of its log-probabilities are missing."""
    ids = RENDERER.encode(text) + ([RENDERER.close_id] if finish == "stop" else [])
    logprobs = np.full(len(ids) - lost, -0.5, np.float32)
    return Sample(np.array(ids, np.int32), logprobs, np.full(len(ids), version, np.int32), finish, routes)


def turn_of(reply: Any) -> dict[str, Any]:
    assert reply.status == 200, reply.body
    return dict(reply.json["choices"][0]["message"])


def two_way_tokenizer() -> Tokenizer:
    """The byte tokenizer, with a merge: "ls" is one token, and also two."""
    state = json.loads(byte_tokenizer().to_str())
    model = state["model"]
    for token in state["added_tokens"]:
        token["id"] += 1
    model["vocab"]["ls"] = len(model["vocab"])
    model["merges"] = [["l", "s"]]
    return Tokenizer.from_str(json.dumps(state))


async def test_fault_01_a_tokenizer_with_two_encodings_of_one_string(server: Any, post: Any) -> None:
    renderer = TemplateRenderer(two_way_tokenizer(), CHATML_TEMPLATE)
    apart = renderer.encode("l") + renderer.encode("s")
    assert renderer.encode("ls") != apart
    assert renderer.decode(renderer.encode("ls")) == renderer.decode(apart)
    sampled = [
        [*apart, *renderer.encode(" first"), renderer.close_id],
        [*renderer.encode("ls and "), *apart, renderer.close_id],
        [*apart, *apart, renderer.close_id],
    ]
    policy = ScriptedPolicy([{"ids": ids} for ids in sampled], renderer=renderer, parser=PARSER)
    session = Session("trial", policy, renderer=renderer, parser=PARSER, budget=BUDGET)
    address = await server.open(session)
    history = [user()]
    for number in range(3):
        history += [turn_of(await post(address.base_url, body(*history))), user(f"on {number}")]
    (segment,) = session.segments()
    mask = segment.response_mask.astype(bool)
    assert segment.response_ids[mask].tolist() == [token for ids in sampled for token in ids]
    assert renderer.encode(renderer.decode(segment.ids.tolist())) != segment.ids.tolist()
    assert session.proof().holds


TEXTS = st.text(max_size=12).filter(lambda text: "<" not in text)


@settings(max_examples=60)
@given(st.sampled_from(RENDERERS), TEXTS, st.lists(st.tuples(TEXTS, TEXTS, TEXTS), max_size=5))
def test_fault_02_a_conversation_is_the_sum_of_what_is_added(
    renderer: TemplateRenderer, question: str, turns: list[tuple[str, str, str]]
) -> None:
    history = [Message("system", "S"), Message("user", question)]
    ids = renderer.initial(history, ())
    for said, command, heard in turns:
        arguments = json.dumps({"command": command}, ensure_ascii=False)
        turn = Message("assistant", said, "", (ToolCall("c", "bash", arguments),))
        sampled = PARSER.write(said, "", [ParsedCall("bash", arguments)])
        ids += [*renderer.encode(sampled), renderer.close_id]
        new = [Message("tool", heard, tool_call_id="c"), Message("user", heard)]
        ids += renderer.addition(turn, new, (), last_id=ids[-1])
        history += [turn, *new]
    assert ids == renderer.initial(history, ())


def test_fault_02_a_template_that_does_more_than_add_is_refused_by_name() -> None:
    with pytest.raises(TemplateError, match="template of acme-7b is not append-only: it counts messages"):
        TemplateRenderer(byte_tokenizer(), "{{- messages | length }}" + CHATML_TEMPLATE, name="template of acme-7b")


@pytest.mark.parametrize(("reasoning", "splits"), [("strip", ["first", "reasoning_stripped"]), ("keep", ["first"])])
async def test_fault_03_reasoning_stripped_from_history(
    reasoning: Any, splits: list[str], server: Any, post: Any
) -> None:
    said = PARSER.write("ok", "because", [])
    engine = Engine(sample(said), sample("done"))
    session = Session("trial", engine, renderer=RENDERER, parser=PARSER, budget=BUDGET, reasoning=reasoning)
    address = await server.open(session)
    turn = turn_of(await post(address.base_url, body(user())))
    assert turn["reasoning_content"] == "because"
    turn_of(await post(address.base_url, body(user(), {"role": "assistant", "content": "ok"}, user("on"))))

    segments = session.segments()
    assert [str(segment.reason) for segment in segments] == splits
    assert session.proof().splits == {reason: 1 for reason in splits}
    # Each sample's context is what was really sent: with the reasoning where it was kept, without where it was not.
    assert ("because" in RENDERER.decode(engine.prompts[1])) == (reasoning == "keep")
    for segment, prompt in zip(segments[::-1], engine.prompts[::-1], strict=False):
        assert segment.ids.tolist()[: len(prompt)] == prompt
    assert session.proof().holds
    assert session.proof().loss_tokens == session.sampled_tokens


@pytest.mark.parametrize("key", ["reasoning_content", "reasoning"])
async def test_fault_04_reasoning_under_either_name(key: str, server: Any, post: Any) -> None:
    engine = Engine(sample(PARSER.write("ok", "because", [])), sample("done"), sample("again"))
    session = Session("trial", engine, renderer=RENDERER, parser=PARSER, budget=BUDGET)
    address = await server.open(session)
    turn_of(await post(address.base_url, body(user())))
    turn = {"role": "assistant", "content": "ok", key: "because"}
    turn_of(await post(address.base_url, body(user(), turn, user("on"))))
    assert len(session.segments()) == 1
    # A history that nobody here sampled is rendered as a whole, and holds the reasoning too.
    turn_of(await post(address.base_url, body(user("other"), turn, user("on"))))
    for prompt in engine.prompts[1:]:
        assert RENDERER.decode(prompt).count("<think>\nbecause\n</think>") == 1


async def test_fault_05_a_break_ends_as_a_split_with_its_reason(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"tool_calls": [CALL]}], repeat="last", budget=BUDGET)
    address = await server.open(session)
    first = turn_of(await post(address.base_url, body(user())))
    result = {"role": "tool", "tool_call_id": first["tool_calls"][0]["id"], "content": "out"}
    second = turn_of(await post(address.base_url, body(user(), first, result)))
    again = {**result, "tool_call_id": second["tool_calls"][0]["id"]}
    changed = {**first, "tool_calls": [{**first["tool_calls"][0], "function": {"name": "bash", "arguments": "{"}}]}
    breaks = {
        "edited_turn": [user(), changed, result, second, again],
        "dropped_turn": [user(), second, again],
        "compacted": [user(), user("a summary")],
    }
    no_known_kind = [again, result, second, first, user("out of order")]
    for messages in (*breaks.values(), no_known_kind):
        turn_of(await asyncio.wait_for(post(address.base_url, body(*messages)), 5))
    proof = session.proof()
    assert breaks.keys() <= proof.splits.keys()
    assert proof.segments == sum(proof.splits.values()) == 1 + len(breaks) + 1
    assert proof.holds
    assert proof.loss_tokens == session.sampled_tokens
    await asyncio.wait_for(server.close(session.id), 5)


@pytest.mark.parametrize("stream", [False, True])
async def test_fault_06_no_id_is_lost_in_a_stream_with_tool_calls(
    stream: bool, server: Any, scripted: Any, post: Any
) -> None:
    said = PARSER.write("ok", "hm", [])
    session = scripted([{"text": "ok", "tool_calls": [CALL, CALL], "reasoning": "hm"}, {"raw": said}], budget=BUDGET)
    address = await server.open(session)
    for number in range(2):
        options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
        reply = await post(address.base_url, body(user(str(number)), **options))
        events = [line.removeprefix("data: ") for line in reply.body.decode().split("\n\n") if line[:7] == "data: {"]
        usage = json.loads(events[-1])["usage"] if stream else reply.json["usage"]
        call = session.calls[number]
        assert len(call.sample.ids) == len(call.sample.logprobs) == usage["completion_tokens"]
        assert call.prompt_length == usage["prompt_tokens"]
    assert session.proof().loss_tokens == session.sampled_tokens


@pytest.mark.parametrize("stream", [False, True])
async def test_fault_06_a_call_whose_parts_differ_is_never_a_reply_and_never_trained(
    stream: bool, server: Any, post: Any
) -> None:
    session = Session("trial", Engine(sample("hello", lost=2)), renderer=RENDERER, parser=PARSER, budget=BUDGET)
    address = await server.open(session)
    reply = await post(address.base_url, body(user(), stream=stream))
    assert reply.status == 500
    assert "6 sampled ids came with 4 log-probabilities" in reply.json["error"]["message"]
    assert session.calls == []
    assert session.segments() == []
    assert session.proof().untrained == {"incomplete": 6}
    assert session.over


async def test_fault_07_a_retry_is_not_sampled_again(server: Any, scripted: Any, post: Any) -> None:
    session = scripted([{"text": "once", "delay": 0.2}, {"text": "twice"}], budget=BUDGET)
    address = await server.open(session)
    together = await asyncio.gather(*(post(address.base_url, body(user())) for _ in range(4)))
    later = await post(address.base_url, body(user()))
    assert {reply.body for reply in together} == {later.body}
    assert len(session.calls) == 1
    assert turn_of(later)["content"] == "once"
    assert session.proof().loss_tokens == session.sampled_tokens == len(session.calls[0].sample.ids)


async def test_fault_08_a_weight_update_loses_no_generation_in_flight(server: Any, post: Any) -> None:
    """Eight trials are generating when the weights change; each goes on with the new ones."""
    update = asyncio.Event()
    waiting = asyncio.Semaphore(0)

    async def until_the_update(prompt: list[int]) -> Sample:
        waiting.release()
        await update.wait()
        return sample("Hel", "aborted", version=4)

    sessions = [
        Session(f"trial-{number}", Engine(until_the_update, sample("lo", version=5)), renderer=RENDERER, parser=PARSER)
        for number in range(8)
    ]
    addresses = [await server.open(session) for session in sessions]
    asking = asyncio.gather(*(post(address.base_url, body(user())) for address in addresses))
    for _ in sessions:
        await waiting.acquire()
    update.set()
    for reply in await asking:
        assert turn_of(reply)["content"] == "Hello"
        assert reply.json["choices"][0]["finish_reason"] == "stop"
    for session in sessions:
        (segment,) = session.segments()
        assert segment.versions.tolist() == [4, 4, 4, 5, 5, 5]
        first, second = session.policy.prompts
        assert second == first + RENDERER.encode("Hel")
        assert session.proof().holds


async def test_fault_09_every_token_has_its_version_and_a_span_too_wide_is_rejected_and_counted(
    server: Any, post: Any
) -> None:
    ledger = Ledger()
    errors = {}
    for trial, versions in {"steady": (2, 2, 2), "near": (2, 3, 3), "far": (2, 4, 6)}.items():
        engine = Engine(*(sample(f"turn {number}", version=version) for number, version in enumerate(versions)))
        session = Session(trial, engine, renderer=RENDERER, parser=PARSER, budget=BUDGET)
        address = await server.open(session)
        history = [user()]
        for number in range(3):
            if number == 2:
                history = [user("a summary")]  # the span is the trial's, however many segments it has
            history += [turn_of(await post(address.base_url, body(*history))), user(f"on {number}")]
        segments = session.segments()
        assert len(segments) == 2
        trained = [segment.versions[segment.response_mask.astype(bool)] for segment in segments]
        length = len(RENDERER.encode("turn 0")) + 1
        assert np.concatenate(trained).tolist() == [version for version in versions for _ in range(length)]
        span = version_span(segments)
        assert span == VersionSpan(min(versions), max(versions))
        errors[trial] = span.too_wide(1)
        ledger.submit(trial)
        ledger.finish(trial, Outcome.STALE if errors[trial] else Outcome.SOLVED)
    ledger.train(trial for trial, error in errors.items() if not error)
    assert errors == {
        "steady": "", "near": "", "far": "weights 2 to 6 sampled it: 4 updates, of which 1 are allowed",
    }  # fmt: skip
    account = ledger.check(closed=True)
    assert (account.trained, account.dropped, account.dropped_why) == (2, 1, {"stale": 1})
    assert Outcome.STALE.treatment is Treatment.DROP
    assert version_span([]) is None


MALFORMED = [
    '<tool_call>\n{"name": "bash", "arguments": {"command": "ls -la',
    '<tool_call>\n{"name": "bash", "arguments": {"command": ls}}\n</tool_call>',
    "<tool_call>\nls\n</tool_call>",
    '<tool_call>{"arguments": {}}</tool_call>',
]


@pytest.mark.parametrize("text", MALFORMED)
async def test_fault_10_malformed_tool_json_reaches_the_harness_and_is_trained(
    text: str, server: Any, scripted: Any, post: Any
) -> None:
    session = scripted([{"raw": text}, {"tool_calls": [CALL]}], budget=BUDGET)
    address = await server.open(session)
    reply = await post(address.base_url, body(user()))
    turn = turn_of(reply)
    assert turn["content"] == text
    assert not turn.get("tool_calls")
    assert session.malformed == 1
    again = await post(address.base_url, body(user(), turn, user("That was no call.")))
    assert again.json["choices"][0]["finish_reason"] == "tool_calls"
    assert session.ending is None
    (segment,) = session.segments()
    trained = segment.response_ids[segment.response_mask.astype(bool)].tolist()
    assert trained[: len(RENDERER.encode(text))] == RENDERER.encode(text)
    assert session.proof().holds


def routes(rows: int, version: int) -> np.ndarray:
    """(rows, 2 layers, top 2): every row says its position and the version of the weights that routed it."""
    table = np.empty((rows, 2, 2), np.int16)
    table[..., 0] = np.arange(rows)[:, None]
    table[..., 1] = version
    return table


async def test_fault_11_routes_of_two_turns_and_two_versions(server: Any, post: Any) -> None:
    """The second turn's engine reports routes of the whole prompt, as its own weights chose them."""

    def answering(text: str, version: int, finish: Any = "stop") -> Any:
        async def answer(prompt: list[int]) -> Sample:
            said = sample(text, finish, version)
            rows = len(prompt) + len(said.ids) - 1
            return Sample(said.ids, said.logprobs, said.versions, finish, routes(rows, version))

        return answer

    engine = Engine(answering("one", 1), answering("tw", 1, "aborted"), answering("o", 2), answering("three", 2))
    session = Session("trial", engine, renderer=RENDERER, parser=PARSER, budget=BUDGET)
    address = await server.open(session)
    history = [user()]
    for number in range(3):
        history += [turn_of(await post(address.base_url, body(*history))), user(f"on {number}")]
    (segment,) = session.segments()
    assert segment.routes is not None
    assert segment.routes.shape == (len(segment.ids) - 1, 2, 2)
    assert segment.routes[..., 0].tolist() == routes(len(segment.ids) - 1, 0)[..., 0].tolist()
    # Row p was chosen when the token after p was sampled, or before: what the first weights routed stays theirs.
    before_update = len(engine.prompts[2]) - 1
    assert set(segment.routes[:before_update, :, 1].ravel().tolist()) == {1}
    assert set(segment.routes[before_update:, :, 1].ravel().tolist()) == {2}
    assert session.proof().holds


async def test_fault_11_a_row_too_few_or_too_many_is_never_trained(server: Any, post: Any) -> None:
    for off in (-1, 1):

        async def answer(prompt: list[int], off: int = off) -> Sample:
            said = sample("one")
            return Sample(
                said.ids, said.logprobs, said.versions, "stop", routes(len(prompt) + len(said.ids) - 1 + off, 1)
            )

        session = Session(f"trial{off}", Engine(answer), renderer=RENDERER, parser=PARSER, budget=BUDGET)
        address = await server.open(session)
        reply = await post(address.base_url, body(user()))
        assert reply.status == 500
        assert "carry expert routes" in reply.json["error"]["message"]
        assert session.segments() == []

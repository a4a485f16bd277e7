"""Whose call it is, told by the conversation alone."""

from __future__ import annotations

import numpy as np
import pytest
from capture_fixtures import PARSER, SYSTEM, USER, Harness, call_text, results

from lego_verl.capture.call import Sample
from lego_verl.capture.message import Message
from lego_verl.capture.parser import ParsedCall

TITLE = [Message("system", "Write a title."), Message("user", "A title for: Fix it.")]
QUESTION = Message("user", "Write down what you did.")
SUMMARY = "<summary>\nThe file was read and the bug was found.\n</summary>"


def begin(harness: Harness, turns: int = 2) -> list[Message]:
    history = [SYSTEM, USER]
    for number in range(turns):
        turn = harness.ask(history, call_text(f"step {number}", "ok"))
        history += [turn, *results(turn)]
    return history


def holds(harness: Harness, untrained: int) -> None:
    """Both promises hold, and ``untrained`` calls are listed as side calls."""
    proof = harness.capture.proof()
    assert proof.holds, proof
    tokens = [
        len(call.sample.ids) for call in harness.capture.calls if harness.capture.splits()[call.segment] == "side_call"
    ]
    assert len(tokens) == untrained
    assert proof.untrained == ({"side_call": sum(tokens)} if tokens else {})
    assert proof.loss_tokens + sum(tokens) == proof.sampled_tokens == sum(len(each.ids) for each in harness.samples)


def test_a_title_without_tools_after_the_task_began() -> None:
    harness = Harness()
    history = begin(harness)
    harness.ask(TITLE, "Fixing it", tools=())
    harness.ask(history, "done")
    assert harness.splits() == ["first", "side_call"]
    holds(harness, untrained=1)


def test_a_title_before_the_task_begins() -> None:
    harness = Harness()
    harness.ask([TITLE[0], USER], "Fixing it", tools=())
    assert harness.splits() == ["first"]  # nobody can know yet
    begin(harness)
    assert harness.splits() == ["side_call", "first"]
    holds(harness, untrained=1)


def test_a_summary_without_tools_and_the_compaction_after_it() -> None:
    harness = Harness()
    begin(harness, 3)
    harness.ask([Message("system", "You sum up."), Message("user", "user: Fix it. assistant: ...")], SUMMARY, tools=())
    harness.ask([SYSTEM, Message("user", "Fix it.\n" + SUMMARY)], call_text("on"))
    assert harness.splits() == ["first", "side_call", "compacted"]
    holds(harness, untrained=1)


def test_a_summary_that_extends_the_conversation_is_taken_off_it() -> None:
    harness = Harness()
    history = begin(harness, 3)
    harness.ask([*history, QUESTION], SUMMARY)
    assert harness.splits() == ["first"]
    turn = harness.ask([SYSTEM, USER, Message("user", f"Go on from this: {SUMMARY}")], call_text("on"))
    assert harness.splits() == ["first", "side_call", "compacted"]
    holds(harness, untrained=1)
    first, compacted = harness.capture.segments()
    assert len(first.calls) == 3
    assert first.ids.tolist() == [*harness.sent[2], *harness.samples[2].ids.tolist()]
    assert compacted.ids.tolist() == [*harness.sent[4], *harness.samples[4].ids.tolist()]
    assert harness.capture.asked[3].messages == (*history, QUESTION)
    # The conversation without the question is still known, should the harness go on with it after all.
    harness.ask(history, "done")
    harness.ask([SYSTEM, USER, Message("user", f"Go on from this: {SUMMARY}"), turn, *results(turn)], "done")
    assert len(harness.splits()) == 3
    holds(harness, untrained=1)


def test_a_summary_of_a_cut_history_is_a_side_call_also_with_tools() -> None:
    harness = Harness()
    history = begin(harness, 3)
    harness.ask([*history[:4], QUESTION], SUMMARY)
    harness.ask([SYSTEM, Message("user", "A summary, told otherwise."), *history[-2:]], call_text("on"))
    assert harness.splits() == ["first", "side_call", "compacted"]
    holds(harness, untrained=1)


def test_routes_stay_whole_when_a_summary_is_taken_off() -> None:
    harness = Harness()

    def ask(messages: list[Message], text: str, expert: int) -> Message:
        prepared = harness.prepare(messages)
        sample = harness.sample(text)
        routes = np.full((len(prepared.prompt_ids) + len(sample.ids) - 1, 2, 2), expert, np.uint8)
        routed = Sample(sample.ids, sample.logprobs, sample.versions, sample.finish, routes)
        return harness.commit(prepared, routed).message

    history = [SYSTEM, USER]
    for expert in (1, 2):
        turn = ask(history, call_text("a"), expert)
        history += [turn, *results(turn)]
    ask([*history, QUESTION], SUMMARY, 3)
    ask([SYSTEM, Message("user", SUMMARY)], call_text("on"), 4)
    first, compacted = harness.capture.segments()
    assert first.routes is not None
    assert compacted.routes is not None
    assert first.routes.shape == (len(first.ids) - 1, 2, 2)
    assert np.unique(first.routes).tolist() == [1, 2]
    assert np.unique(compacted.routes).tolist() == [4]
    holds(harness, untrained=1)


@pytest.mark.parametrize(
    "prompt", ["Find where add() is defined.", "# Your task\nFind where add() is defined.\nReport back."]
)
def test_what_an_open_call_hands_over_begins_a_subagent(prompt: str) -> None:
    harness = Harness()
    history = begin(harness, 1)
    handed = [ParsedCall("task", '{"description": "find", "prompt": "Find where add() is defined."}')]
    call = harness.ask(history, PARSER.write("", "", handed))
    own = [Message("system", "You search."), Message("user", prompt)]
    turn = harness.ask(own, call_text("grep"))
    harness.ask([*own, turn, *results(turn)], "In calc.py, line 1.")
    harness.ask([*history, call, *results(call, "In calc.py, line 1.")], "done")
    assert harness.splits() == ["first", "subagent"]
    holds(harness, untrained=0)


def test_a_complaint_that_repeats_a_bad_call_is_no_subagent() -> None:
    harness = Harness()
    bad = [ParsedCall("bosh", '{"command": "grep -rn add the_whole_repository"}')]
    harness.ask([SYSTEM, USER], PARSER.write("", "", bad))
    complaint = Message("user", "There is no tool bosh (grep -rn add the_whole_repository).")
    harness.ask([SYSTEM, USER, complaint], call_text("again"))
    assert harness.splits() == ["first", "dropped_turn"]
    holds(harness, untrained=0)


def test_a_turn_without_a_call_that_is_dropped_is_no_side_call() -> None:
    harness = Harness()
    harness.ask([SYSTEM, USER], "I would look at the file first.")
    harness.ask([SYSTEM, USER, Message("user", "No call was found.")], "I would look again.")
    harness.ask([SYSTEM, USER, *[Message("user", "No call was found.")] * 2], call_text("ls"))
    assert harness.splits() == ["first", "dropped_turn", "dropped_turn"]
    holds(harness, untrained=0)


def test_a_question_aside_that_goes_on_is_none() -> None:
    harness = Harness()
    begin(harness)
    turn = harness.ask(TITLE, "Which one?", tools=())
    harness.ask([*TITLE, turn, Message("user", "The first.")], "Fixing it", tools=())
    assert harness.splits() == ["first", "unknown"]
    holds(harness, untrained=0)


@pytest.mark.parametrize("origin", ["side_call", "subagent"])
def test_who_asks_by_header_does_not_put_its_tokens_into_the_agents_segment(origin: str) -> None:
    harness = Harness()
    history = begin(harness)
    prepared = harness.prepare([*history, QUESTION], origin=origin)
    harness.commit(prepared, harness.sample(SUMMARY))
    harness.ask(history, "done")
    assert harness.splits() == ["first", origin]
    holds(harness, untrained=1 if origin == "side_call" else 0)
    assert harness.capture.segments()[0].calls == (0, 1, 3)

"""What a harness does to its history, and what becomes of the segments."""

from __future__ import annotations

import numpy as np
import pytest
from capture_fixtures import RENDERER, SYSTEM, TOOLS, USER, Harness, call_text, results

from lego_verl.capture.call import IncompleteSample, Sample
from lego_verl.capture.message import Message, Request, ToolCall
from lego_verl.capture.split import Split


def grow(harness: Harness, turns: int) -> list[Message]:
    history = [SYSTEM, USER]
    for number in range(turns):
        turn = harness.ask(history, call_text(f"step {number}", "ok"))
        history += [turn, *results(turn)]
    return history


def test_turns_that_are_appended_are_one_segment() -> None:
    harness = Harness()
    grow(harness, 4)
    assert harness.splits() == ["first"]
    (segment,) = harness.capture.segments()
    assert segment.ids.tolist() == [*harness.sent[-1], *harness.samples[-1].ids.tolist()]
    proof = harness.capture.proof()
    assert proof.holds
    assert proof.loss_tokens == proof.sampled_tokens == sum(len(sample.ids) for sample in harness.samples)


def test_the_segment_reads_as_the_template_writes_the_conversation() -> None:
    harness = Harness()
    history = [SYSTEM, USER]
    for text in ("Which file?", "And now?"):
        history += [harness.ask(history, text), Message("user", "a.py")]
    prepared = harness.prepare(history)
    assert list(prepared.prompt_ids) == RENDERER.initial(history, TOOLS)


def test_a_dropped_turn_begins_a_segment_and_stays_trained() -> None:
    harness = Harness()
    history = grow(harness, 2)
    bad = harness.ask(history, '<tool_call>{"name": "bash", "arguments": {"command": "ls')
    assert bad.text.startswith("<tool_call>")
    history.append(Message("user", "No tool call was found."))
    turn = harness.ask(history, call_text("again"))
    harness.ask([*history, turn, *results(turn)], "done")
    assert harness.splits() == ["first", "dropped_turn"]
    assert harness.capture.proof().holds


def test_a_turn_seen_once_and_then_dropped() -> None:
    harness = Harness()
    history = grow(harness, 2)
    bad = harness.ask(history, "no call at all")
    good = harness.ask([*history, bad, Message("user", "Call a tool.")], call_text("good"))
    harness.ask([*history, good, *results(good)], "done")
    assert harness.splits() == ["first", "dropped_turn"]
    assert harness.capture.proof().holds


def edited(history: list[Message], place: int) -> list[Message]:
    turn = history[place]
    call = turn.tool_calls[0]
    changed = turn._replace(tool_calls=(ToolCall(call.id, call.name, '{"command": "something else"}'),))
    return [*history[:place], changed, *history[place + 1 :]]


def test_an_edited_turn_begins_a_segment() -> None:
    harness = Harness()
    history = grow(harness, 3)
    harness.ask(edited(history, 4), "done")
    assert harness.splits() == ["first", "edited_turn"]
    assert harness.capture.proof().holds


def test_arguments_written_anew_are_the_same_turn() -> None:
    harness = Harness()
    history = grow(harness, 3)
    respelt = [
        message._replace(
            tool_calls=tuple(call._replace(arguments=call.arguments.replace("  ", "")) for call in message.tool_calls)
        )
        for message in history
    ]
    assert respelt != history
    harness.ask(respelt, "done")
    assert harness.splits() == ["first"]


def test_a_summary_in_the_place_of_turns_is_a_compaction() -> None:
    harness = Harness()
    history = grow(harness, 3)
    turn = harness.ask([*history[:2], Message("user", "Summary: three steps.")], call_text("on"))
    harness.ask([*history[:2], Message("user", "Summary: three steps."), turn, *results(turn)], "done")
    assert harness.splits() == ["first", "compacted"]
    assert harness.capture.proof().holds


def test_a_compaction_that_keeps_the_last_turns() -> None:
    harness = Harness()
    history = grow(harness, 5)
    harness.ask([*history[:2], Message("user", "Summary."), *history[-4:]], "done")
    assert harness.splits() == ["first", "compacted"]


def test_changed_tools_and_system_are_told_apart() -> None:
    harness = Harness()
    history = grow(harness, 2)
    harness.ask(history, "done", tools=())
    harness.ask([SYSTEM._replace(text="Be long."), *history[1:]], "done")
    assert harness.splits() == ["first", "tools_changed", "system_changed"]
    assert harness.capture.proof().holds


def test_another_conversation_is_told_by_name_only_where_it_shows() -> None:
    harness = Harness()
    grow(harness, 1)
    harness.ask([Message("system", "Another."), Message("user", "Something else.")], call_text("a"))
    assert harness.splits() == ["first", "unknown"]


def test_reasoning_left_out_counts_only_when_asked() -> None:
    for reasoning, splits in (("keep", ["first"]), ("strip", ["first", "reasoning_stripped"])):
        harness = Harness(reasoning=reasoning)
        turn = harness.ask([SYSTEM, USER], "<think>\nhm\n</think>\n\n" + call_text("a"))
        assert turn.reasoning == "hm"
        harness.ask([SYSTEM, USER, turn._replace(reasoning=""), *results(turn)], "done")
        assert harness.splits() == splits
        assert harness.capture.proof().holds


def test_a_harness_says_who_asks() -> None:
    harness = Harness()
    harness.ask([SYSTEM, USER], "a")
    for origin in ("subagent", "side_call"):
        prepared = harness.prepare([SYSTEM, Message("user", origin)], origin=origin)
        harness.commit(prepared, harness.sample("b"))
    assert harness.splits() == ["first", "subagent", "side_call"]
    proof = harness.capture.proof()
    assert proof.holds
    assert proof.segments == 3
    assert len(harness.capture.segments()) == 2
    assert proof.untrained == {"side_call": len(harness.samples[-1].ids)}
    assert proof.loss_tokens + proof.untrained["side_call"] == proof.sampled_tokens


def test_parallel_results_in_any_order_extend() -> None:
    harness = Harness()
    turn = harness.ask([SYSTEM, USER], call_text("a", count=3))
    harness.ask([SYSTEM, USER, turn, *reversed(results(turn))], "done")
    assert harness.splits() == ["first"]
    last = RENDERER.decode(harness.sent[-1])
    assert last.index("a 0") < last.index("a 1") < last.index("a 2")


def test_calls_that_overlap_each_keep_their_own_context() -> None:
    harness = Harness()
    history = grow(harness, 1)
    first, second = harness.prepare([*history]), harness.prepare([*history])
    one = harness.commit(second, harness.sample("one")).message
    harness.commit(first, harness.sample("two"))
    harness.ask([*history, one, Message("user", "on")], "three")
    assert len(harness.splits()) == 2
    assert harness.capture.proof().holds


def test_a_cut_turn_is_closed_without_loss() -> None:
    harness = Harness()
    turn = harness.ask([SYSTEM, USER], '<tool_call>{"name": "ba', end=False)
    harness.ask([SYSTEM, USER, turn, Message("user", "You were cut.")], "ok")
    (segment,) = harness.capture.segments()
    ends = np.flatnonzero(segment.response_ids == RENDERER.close_id)
    assert segment.response_mask[ends].tolist() == [0, 0, 1]
    assert harness.splits() == ["first"]
    assert harness.capture.proof().holds


def test_ids_that_no_tokenizer_would_make_are_trained_as_they_are() -> None:
    harness = Harness()
    history = [SYSTEM, USER]
    for text in ("one two three", "four five six"):
        turn = harness.ask(history, text, twisted=True)
        history += [turn, Message("user", "on")]
    (segment,) = harness.capture.segments()
    trained = segment.response_ids[segment.response_mask.astype(bool)].tolist()
    sampled = [token for sample in harness.samples for token in sample.ids.tolist()]
    assert trained == sampled
    assert RENDERER.encode(RENDERER.decode(sampled)) != sampled
    assert harness.capture.proof().holds


@pytest.mark.parametrize(
    "sample",
    [
        Sample(np.array([1, 2], np.int32), np.array([-1.0], np.float32), np.array([0, 0], np.int32), "stop"),
        Sample(np.array([1], np.int32), np.array([-1.0], np.float32), np.array([0, 0], np.int32), "stop"),
        Sample(np.array([1], np.int32), np.array([np.nan], np.float32), np.array([0], np.int32), "stop"),
        Sample(np.array([1], np.int32), np.array([0.5], np.float32), np.array([0], np.int32), "stop"),
        Sample(np.array([], np.int32), np.array([], np.float32), np.array([], np.int32), "stop"),
        Sample(np.array([1], np.int32), np.array([-1.0], np.float32), np.array([0], np.int32), "stop",
               routes=np.zeros((3, 2, 2), np.uint8)),
    ],
)  # fmt: skip
def test_an_incomplete_sample_changes_nothing(sample: Sample) -> None:
    harness = Harness()
    history = grow(harness, 2)
    before = harness.capture.segments()[0].ids.tolist()
    with pytest.raises(IncompleteSample):
        harness.commit(harness.prepare(history), sample)
    assert harness.capture.segments()[0].ids.tolist() == before
    harness.ask(history, "done")
    assert harness.splits() == ["first"]
    assert harness.capture.proof().holds


def test_routes_keep_the_rows_of_the_call_that_first_had_them() -> None:
    harness = Harness()
    history, rows = [SYSTEM, USER], 0
    expected = np.empty((0, 2, 2), np.uint8)
    for version in (1, 2, 3):
        harness.version = version
        prepared = harness.prepare(history)
        plain = harness.sample(f"turn {version}")
        rows = len(prepared.prompt_ids) + len(plain.ids) - 1
        routes = np.full((rows, 2, 2), version, np.uint8)
        turn = harness.commit(prepared, Sample(plain.ids, plain.logprobs, plain.versions, plain.finish, routes)).message
        expected = np.concatenate([expected, routes[len(expected) :]])
        history += [turn, Message("user", "on")]
    (segment,) = harness.capture.segments()
    assert segment.routes is not None
    assert segment.routes.shape == (len(segment.ids) - 1, 2, 2)
    assert np.array_equal(segment.routes, expected)
    assert np.unique(segment.routes).tolist() == [1, 2, 3]
    assert set(segment.versions.tolist()) == {-1, 1, 2, 3}
    with pytest.raises(IncompleteSample, match="some calls"):
        harness.ask(history, "no routes")


def test_a_compaction_by_the_title_of_its_reason_is_an_enumerated_one() -> None:
    assert {str(split) for split in Split} == {
        "first", "compacted", "edited_turn", "dropped_turn", "tools_changed", "system_changed",
        "reasoning_stripped", "subagent", "side_call", "unknown",
    }  # fmt: skip


def test_what_the_harness_asked_is_recorded_by_what_it_added() -> None:
    harness = Harness()
    grow(harness, 3)
    asked = harness.capture.asked
    assert [entry.kept for entry in asked] == [0, 3, 5]
    assert [len(entry.messages) for entry in asked] == [2, 1, 1]
    assert Request((SYSTEM, USER)).tools == ()

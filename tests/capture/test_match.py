"""Messages match by meaning."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_verl.capture.match import common_prefix, difference, same_arguments
from lego_verl.capture.message import Message, ToolCall, in_call_order, parsed_arguments

TURN = Message("assistant", "\n\nLooking.  \n", "I should look.\n", (ToolCall("call_1", "Edit", '{"path":  "é"}'),))


@pytest.mark.parametrize(
    "theirs",
    [
        TURN._replace(text="Looking."),
        TURN._replace(reasoning="I should look."),
        TURN._replace(reasoning=""),
        TURN._replace(tool_calls=(ToolCall("call_1", "Edit", '{"path":"\\u00e9"}'),)),
        TURN._replace(tool_calls=(ToolCall("call_1", "Edit", '{"replace_all": false, "path": "é"}'),)),
    ],
    ids=["white space", "reasoning stripped right", "no reasoning", "arguments spelt anew", "a default gained"],
)
def test_what_harnesses_do_to_a_turn_does_not_count(theirs: Message) -> None:
    assert difference(TURN, theirs) is None


@pytest.mark.parametrize(
    "theirs",
    [
        TURN._replace(text="Looked."),
        TURN._replace(text=""),
        TURN._replace(reasoning="I should not."),
        TURN._replace(tool_calls=(ToolCall("call_1", "Edit", '{"path": "e"}'),)),
        TURN._replace(tool_calls=(ToolCall("call_1", "Edit", "{}"),)),
        TURN._replace(tool_calls=(ToolCall("call_1", "invalid", '{"path": "é"}'),)),
        TURN._replace(tool_calls=(ToolCall("call_2", "Edit", '{"path": "é"}'),)),
        TURN._replace(tool_calls=()),
        TURN._replace(tool_calls=(*TURN.tool_calls, ToolCall("call_2", "Edit", "{}"))),
        Message("user", TURN.text),
    ],
    ids=["text", "text gone", "reasoning", "argument", "argument gone", "name", "id", "no call", "a call more", "role"],
)
def test_a_turn_that_really_changed_is_edited(theirs: Message) -> None:
    assert difference(TURN, theirs) == "edited"


def test_left_out_reasoning_counts_when_the_recipe_says_so() -> None:
    assert difference(TURN, TURN._replace(reasoning=""), "strip") == "reasoning_stripped"
    assert difference(TURN, TURN._replace(reasoning="I should look."), "strip") is None
    assert difference(TURN, TURN._replace(reasoning="", text="no"), "strip") == "edited"


def test_arguments_that_are_no_json_compare_as_they_are() -> None:
    assert same_arguments('{"a": ', '{"a": ')
    assert not same_arguments('{"a": ', '{"a": 1}')


@pytest.mark.parametrize(
    ("ours", "theirs", "same"),
    [("1", "true", False), ("[1]", "[true]", False), ('{"b": false}', '{"b": 0}', False), ("1", "1.0", True)],
)
def test_true_is_not_one(ours: str, theirs: str, same: bool) -> None:
    assert same_arguments(f'{{"a": {ours}}}', f'{{"a": {theirs}}}') is same
    assert same_arguments(ours, theirs) is same


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(st.characters(exclude_categories=["Cs"]), max_size=4), JSON, max_size=4))
def test_any_spelling_of_the_same_arguments_is_the_same(value: dict[str, object]) -> None:
    compact, spaced = orjson.dumps(value).decode(), orjson.dumps(value, option=orjson.OPT_INDENT_2).decode()
    assert same_arguments(compact, spaced)
    assert same_arguments(compact, orjson.dumps({**value, "a default": 1}).decode())
    if value:
        assert not same_arguments(compact, "{}")


def test_the_prefix_ends_where_meaning_does() -> None:
    ours = [Message("system", "s"), Message("user", "u"), TURN]
    assert common_prefix(ours, [*ours[:2], TURN._replace(text="Looking."), Message("user", "x")]) == (3, None)
    assert common_prefix(ours, [*ours[:2], TURN._replace(text="x")]) == (2, "edited")


def test_parallel_results_come_in_call_order() -> None:
    turn = Message("assistant", tool_calls=(ToolCall("a", "f", "{}"), ToolCall("b", "f", "{}")))
    a, b = Message("tool", "1", tool_call_id="a"), Message("tool", "2", tool_call_id="b")
    user = Message("user", "u")
    assert in_call_order([user, turn, b, a, user, turn, b]) == (user, turn, a, b, user, turn, b)
    orphan = Message("tool", "3", tool_call_id="?")
    assert in_call_order([turn, orphan, b, a]) == (turn, a, b, orphan)


def test_arguments_too_deep_for_a_template_stay_a_string() -> None:
    deep = '{"a":' * 600 + "1" + "}" * 600
    assert parsed_arguments(deep) == deep
    assert parsed_arguments('{"a": 1}') == {"a": 1}
    assert parsed_arguments("[1]") == "[1]"

"""Sampled text becomes a reply; what cannot be read stays text, and is counted."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_verl.capture.chatml import CHATML_TEMPLATE
from lego_verl.capture.parser import HermesParser, Parsed, ParsedCall, ParserMismatch, check_parser

PARSER = HermesParser()
CALL = '<tool_call>\n{"name": "bash", "arguments": {"command":  "ls \\"a\\""}}\n</tool_call>'
ARGUMENTS = '{"command":  "ls \\"a\\""}'


def test_arguments_keep_their_spelling() -> None:
    parsed = PARSER.parse(f"Looking.\n{CALL}")
    assert parsed == Parsed("Looking.", "", (ParsedCall("bash", ARGUMENTS),), 0)


def test_parallel_calls_and_text_around_them() -> None:
    parsed = PARSER.parse(f"a\n{CALL}\nb\n{CALL}")
    assert parsed.text.split() == ["a", "b"]
    assert len(parsed.calls) == 2


def test_reasoning_is_split_off() -> None:
    assert PARSER.parse("<think>\nhm\n</think>\n\nhi") == Parsed("hi", "hm")
    assert PARSER.parse("hm\n</think>\n\nhi", reasoning_open=True) == Parsed("hi", "hm")
    assert PARSER.parse("<think>\nhm, and cut") == Parsed("", "hm, and cut")
    assert PARSER.parse("x <think> y") == Parsed("x <think> y")
    assert PARSER.parse(f"<think>{CALL}</think>{CALL}").calls == (ParsedCall("bash", ARGUMENTS),)


def test_arguments_may_hold_the_markers() -> None:
    arguments = '{"command": "echo \\"</tool_call> <tool_call>\\""}'
    parsed = PARSER.parse(f'<tool_call>{{"name": "bash", "arguments": {arguments}}}</tool_call>')
    assert parsed == Parsed("", "", (ParsedCall("bash", arguments),), 0)


def test_arguments_sampled_as_a_string_are_read() -> None:
    parsed = PARSER.parse('<tool_call>{"name": "bash", "arguments": "{\\"a\\": 1}"}</tool_call>')
    assert parsed.calls == (ParsedCall("bash", '{"a": 1}'),)


@pytest.mark.parametrize(
    "text",
    [
        '<tool_call>\n{"name": "bash", "arguments": {"command": "ls -la',
        '<tool_call>\n{"name": "bash", "arguments": {"command": "ls"}}',
        '<tool_call>{"name": "bash", "arguments": {"command": "ls}}</tool_call>',
        '<tool_call>{"arguments": {}}</tool_call>',
        '<tool_call>{"name": 7, "arguments": {}}</tool_call>',
        '<tool_call>{"name": "", "arguments": {}}</tool_call>',
        '<tool_call>{"name": "bash", "arguments": [1]}</tool_call>',
        '<tool_call>{"name": "bash", "arguments": "no json"}</tool_call>',
        '<tool_call>{"name": "bash", "arguments": {}} and more</tool_call>',
        '<tool_call>{"name" "bash"}</tool_call>',
        "<tool_call>[]</tool_call>",
        "<tool_call></tool_call>",
        "<tool_call>" + "[" * 100_000,
        '<tool_call>{"name": "bash", "arguments": ' + '{"a":' * 100_000,
    ],
)
def test_a_malformed_call_stays_text_and_is_counted(text: str) -> None:
    assert PARSER.parse(text) == Parsed(text, malformed=1)


def test_a_good_call_beside_a_bad_one_is_read() -> None:
    bad = '<tool_call>{"name": "bash", "argu'
    assert PARSER.parse(f"{bad} {CALL}") == Parsed(bad, "", (ParsedCall("bash", ARGUMENTS),), 1)


VALUES = st.dictionaries(st.text(max_size=5), st.text(max_size=20) | st.integers() | st.none(), max_size=3)
TEXTS = st.text(max_size=30).filter(lambda text: "<" not in text and text == text.strip())


@given(TEXTS, TEXTS, st.lists(st.tuples(st.text(min_size=1, max_size=8), VALUES), max_size=3), st.booleans())
def test_what_is_written_is_read(text: str, why: str, calls: list[tuple[str, dict[str, object]]], opened: bool) -> None:
    written = tuple(ParsedCall(name, json.dumps(arguments, ensure_ascii=False)) for name, arguments in calls)
    read = PARSER.parse(PARSER.write(text, why, written, reasoning_open=opened), reasoning_open=opened)
    assert read == Parsed(text, why, written, 0)


@given(st.text(alphabet='<tool_call>/{}"name:arguments,\\ ', max_size=200))
def test_any_text_is_read_without_an_error(text: str) -> None:
    parsed = PARSER.parse("<tool_call>" + text)
    assert len(parsed.calls) + parsed.malformed >= 1


def test_a_parser_that_does_not_fit_the_template_is_refused_in_one_line() -> None:
    check_parser(CHATML_TEMPLATE, PARSER)
    with pytest.raises(ParserMismatch, match="'hermes' does not read what") as refused:
        check_parser(CHATML_TEMPLATE.replace("tool_call>", "function_call>"), PARSER)
    assert "\n" not in str(refused.value)
    with pytest.raises(ParserMismatch, match="renders no tool calls"):
        check_parser("{% for m in messages %}{{ m.role + m.content }}{% endfor %}", PARSER)
    with pytest.raises(ParserMismatch, match="cannot be checked"):
        check_parser("{{ raise_exception('no') }}", PARSER)

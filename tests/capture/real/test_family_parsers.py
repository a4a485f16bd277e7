"""The tool parsers of Qwen3.5's and DeepSeek's forms: what is written is read, and what cannot be read stays text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_verl.capture.parser import DeepSeekParser, Parsed, ParsedCall, QwenXmlParser, ToolParser

XML, DEEPSEEK = QwenXmlParser(), DeepSeekParser()
XML_CALL = "<tool_call>\n<function=bash>\n<parameter=command>\nls -la\n</parameter>\n</function>\n</tool_call>"
BEGIN, OPEN, SEPARATOR = "<｜tool▁calls▁begin｜>", "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>"
CLOSE, END = "<｜tool▁call▁end｜>", "<｜tool▁calls▁end｜>"
DEEPSEEK_CALL = f'{BEGIN}{OPEN}bash{SEPARATOR}{{"command":  "ls -la"}}{CLOSE}{END}'
TYPES: dict[str, Any] = {
    "text": {"type": "string"},
    "whole": {"type": "integer"},
    "real": {"type": "number"},
    "yes": {"type": "boolean"},
    "several": {"type": "array"},
    "thing": {"type": "object"},
    "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    "either": {"type": ["string", "integer"]},
}
TOOLS = ({"type": "function", "function": {"name": "probe", "parameters": {"type": "object", "properties": TYPES}}},)


def test_values_are_read_as_the_tool_declares_them() -> None:
    sampled = {
        "text": "5", "whole": "5", "real": "2.5", "yes": "True", "several": '["a", 1]', "thing": '{"a": null}',
        "maybe": "None", "either": "7", "other": "true",
    }  # fmt: skip
    written = "".join(f"<parameter={key}>\n{value}\n</parameter>\n" for key, value in sampled.items())
    (call,) = XML.parse(f"<tool_call>\n<function=probe>\n{written}</function>\n</tool_call>", tools=TOOLS).calls
    assert json.loads(call.arguments) == {
        "text": "5", "whole": 5, "real": 2.5, "yes": True, "several": ["a", 1], "thing": {"a": None},
        "maybe": None, "either": 7, "other": True,
    }  # fmt: skip


@pytest.mark.parametrize(("key", "value"), [("whole", "five"), ("whole", "true"), ("yes", "1"), ("thing", "[1]")])
def test_a_value_that_does_not_fit_reaches_the_harness_as_it_was_sampled(key: str, value: str) -> None:
    text = f"<tool_call><function=probe><parameter={key}>{value}</parameter></function></tool_call>"
    (call,) = XML.parse(text, tools=TOOLS).calls
    assert json.loads(call.arguments) == {key: value}


@pytest.mark.parametrize("schema", [None, {}, {"properties": None}, {"properties": {"command": 3}}, "object"])
def test_tools_that_say_nothing_of_types_do_no_harm(schema: Any) -> None:
    tools = ({"type": "function", "function": {"name": "bash", "parameters": schema}}, {"type": "function"})
    assert XML.parse(XML_CALL, tools=tools).calls == (ParsedCall("bash", '{"command": "ls -la"}'),)


def test_a_value_keeps_its_lines_and_its_spaces() -> None:
    value = "\n  if a < b:\n\t</parameter> <function=x>\n\n"
    text = XML.write("", "", [ParsedCall("bash", json.dumps({"command": value}))])
    assert json.loads(XML.parse(text).calls[0].arguments) == {"command": value}


@pytest.mark.parametrize(
    ("parser", "text"),
    [
        *((XML, XML_CALL[:end]) for end in (11, 20, 30, 50, len(XML_CALL) - 12, len(XML_CALL) - 1)),
        (XML, XML_CALL.replace("<function=bash>", "")),
        (XML, XML_CALL.replace("bash", "")),
        (XML, XML_CALL.replace("</parameter>", "")),
        (XML, XML_CALL.replace("</function>", "")),
        (XML, '<tool_call>\n{"name": "bash", "arguments": {}}\n</tool_call>'),
        *((DEEPSEEK, DEEPSEEK_CALL[:end]) for end in (len(BEGIN), len(BEGIN + OPEN), 45, 60, 80)),
        (DEEPSEEK, DEEPSEEK_CALL.replace(SEPARATOR, " ")),
        (DEEPSEEK, DEEPSEEK_CALL.replace("bash", "")),
        (DEEPSEEK, DEEPSEEK_CALL.replace("}", "")),
        (DEEPSEEK, DEEPSEEK_CALL.replace(CLOSE, "")),
        (DEEPSEEK, f"{OPEN}bash{SEPARATOR}[1]{CLOSE}"),
        (DEEPSEEK, f"{OPEN}bash{SEPARATOR}" + "[" * 100_000),
    ],
)
def test_a_malformed_call_stays_text_and_is_counted_once(parser: ToolParser, text: str) -> None:
    assert parser.parse(text) == Parsed(text, malformed=1)


@pytest.mark.parametrize(("parser", "call"), [(XML, XML_CALL), (DEEPSEEK, DEEPSEEK_CALL)])
def test_a_good_call_beside_a_bad_one_is_read(parser: ToolParser, call: str) -> None:
    bad = call[: len(call) // 2]
    parsed = parser.parse(f"{bad} {call}")
    assert [each.name for each in parsed.calls] == ["bash"]
    assert parsed.malformed == 1
    assert "bash" in parsed.text


def test_deepseek_s_arguments_keep_their_spelling_and_may_hold_the_markers() -> None:
    arguments = '{"command":  "echo <｜tool▁call▁end｜>"}'
    parsed = DEEPSEEK.parse(f"Look.{BEGIN}{OPEN}bash{SEPARATOR}{arguments}{CLOSE}\n{OPEN}ls{SEPARATOR}{{}}{CLOSE}{END}")
    assert parsed == Parsed("Look.", "", (ParsedCall("bash", arguments), ParsedCall("ls", "{}")), 0)


NAMES = st.text(alphabet="abcdefg_-", min_size=1, max_size=8)
SAID = st.text(max_size=30).filter(lambda text: "<" not in text and text == text.strip())
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "text": st.text(max_size=30).filter(lambda text: "<" not in text),
        "whole": st.integers(),
        "real": st.floats(allow_nan=False, allow_infinity=False),
        "yes": st.booleans(),
        "several": st.lists(st.text(max_size=5) | st.integers(), max_size=3),
        "thing": st.dictionaries(st.text(max_size=3), st.none() | st.booleans(), max_size=2),
        "maybe": st.none() | st.integers(),
    },
)


@given(st.sampled_from([XML, DEEPSEEK]), SAID, SAID, st.lists(VALUES, max_size=3), st.booleans())
def test_what_is_written_is_read(
    parser: ToolParser, text: str, why: str, values: list[dict[str, Any]], opened: bool
) -> None:
    calls = [ParsedCall("probe", json.dumps(each, ensure_ascii=False)) for each in values]
    read = parser.parse(parser.write(text, why, calls, reasoning_open=opened), reasoning_open=opened, tools=TOOLS)
    assert (read.text, read.reasoning, read.malformed) == (text, why, 0)
    assert [json.loads(each.arguments) for each in read.calls] == values


PIECES = [BEGIN, OPEN, SEPARATOR, CLOSE, END, "<tool_call>", "</tool_call>", "<function=a>", "<parameter=b>", "{}"]
PIECES += ["</parameter>", "</function>", "x", "\n", '{"a": 1}', "<think>", "</think>"]


@given(st.sampled_from([XML, DEEPSEEK]), st.lists(st.sampled_from(PIECES), max_size=30))
def test_any_text_is_read_and_no_call_is_silently_gone(parser: ToolParser, pieces: list[str]) -> None:
    text = "x" + "".join(pieces)
    parsed = parser.parse(text)
    if parsed.calls:
        assert len(parsed.calls) <= text.count("<tool_call>") + text.count(OPEN)
    else:
        assert parsed.text == text
        begun = "<tool_call>" in text if parser is XML else BEGIN in text or OPEN in text
        assert (parsed.malformed > 0) == begun

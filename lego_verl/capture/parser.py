"""Tool parsers by name, and the check that one belongs to a chat template.

A parser makes a reply of sampled text: reasoning, text, tool calls. A malformed call stays text, and is counted.
"""

from __future__ import annotations

from lego_verl.capture.match import same_arguments
from lego_verl.capture.message import Message, ToolCall
from lego_verl.capture.parsers.base import Parsed, ParsedCall, ToolParser, split_reasoning
from lego_verl.capture.parsers.deepseek import DeepSeekParser
from lego_verl.capture.parsers.hermes import HermesParser, read_hermes_call
from lego_verl.capture.parsers.qwen_xml import QwenXmlParser
from lego_verl.capture.template import ChatTemplate, TemplateError

__all__ = [
    "PARSERS",
    "DeepSeekParser",
    "HermesParser",
    "Parsed",
    "ParsedCall",
    "ParserMismatch",
    "QwenXmlParser",
    "ToolParser",
    "check_parser",
    "read_hermes_call",
    "split_reasoning",
]

PARSERS: dict[str, type[ToolParser]] = {
    HermesParser.name: HermesParser,
    QwenXmlParser.name: QwenXmlParser,
    DeepSeekParser.name: DeepSeekParser,
}
"""One a family, by the name that a recipe gives it."""


class ParserMismatch(ValueError):
    """A tool parser that does not read what a chat template writes; one line that says what to change."""


def check_parser(template: str | ChatTemplate, parser: ToolParser) -> None:
    """Check that a parser reads the tool calls that a chat template writes.

    Raises:
        ParserMismatch: in one line, with what the template writes.
    """
    chat = ChatTemplate(template) if isinstance(template, str) else template
    opening = [Message("user", "probe")]
    arguments = '{"path": "a \\"b\\".txt", "lines": [1, 2]}'
    turn = Message("assistant", tool_calls=(ToolCall("call_1", "probe_tool", arguments),))
    try:
        before, after = chat.render(opening), chat.render([*opening, turn])
    except TemplateError as error:
        raise ParserMismatch(f"tool parser {parser.name!r} cannot be checked: {error}") from error
    written = after.removeprefix(before)
    if "probe_tool" not in written:
        raise ParserMismatch(f"{chat.name} renders no tool calls; choose a template that does")
    calls = parser.parse(written).calls
    if len(calls) != 1 or calls[0].name != "probe_tool" or not same_arguments(arguments, calls[0].arguments):
        raise ParserMismatch(
            f"tool parser {parser.name!r} does not read what {chat.name} writes, {written!r}; "
            "choose the parser that belongs to this template"
        )

"""Tool calls between DeepSeek's own tokens, as its chat templates write them since V3.1."""

from __future__ import annotations

import json
from collections.abc import Sequence

from lego_verl.capture.message import Tool
from lego_verl.capture.parsers.base import Parsed, ParsedCall, find_calls, split_reasoning, write_reasoning
from lego_verl.capture.parsers.hermes import skip_space

_ALL_OPEN, _ALL_CLOSE = "<｜tool▁calls▁begin｜>", "<｜tool▁calls▁end｜>"
_OPEN, _SEPARATOR, _CLOSE = "<｜tool▁call▁begin｜>", "<｜tool▁sep｜>", "<｜tool▁call▁end｜>"
_DECODER = json.JSONDecoder()


class DeepSeekParser:
    """``<｜tool▁calls▁begin｜>``, for each call its name, ``<｜tool▁sep｜>`` and a JSON object, and the ends."""

    name = "deepseek"

    def parse(self, text: str, *, reasoning_open: bool = False, tools: Sequence[Tool] = ()) -> Parsed:
        reasoning, text = split_reasoning(text, reasoning_open)
        remaining, calls, malformed = find_calls(text, _OPEN, _read_call)
        if calls:
            remaining = remaining.replace(_ALL_OPEN, "").replace(_ALL_CLOSE, "").strip()
        elif not malformed and _ALL_OPEN in remaining:
            malformed = 1  # cut before its first call
        return Parsed(remaining, reasoning, calls, malformed)

    def write(self, text: str, reasoning: str, calls: Sequence[ParsedCall], *, reasoning_open: bool = False) -> str:
        blocks = [f"{_OPEN}{call.name}{_SEPARATOR}{call.arguments}{_CLOSE}" for call in calls]
        written = f"{_ALL_OPEN}{''.join(blocks)}{_ALL_CLOSE}" if blocks else ""
        return write_reasoning(reasoning, reasoning_open) + text + written


def _read_call(source: str, position: int) -> tuple[ParsedCall | None, int]:
    """A name and a JSON object, read by its own syntax, so that an argument may hold the markers themselves."""
    separator = source.find(_SEPARATOR, position)
    name = source[position:separator].strip() if separator >= 0 else ""
    if not name or "\n" in name or "<｜" in name:
        return None, position
    start = skip_space(source, separator + len(_SEPARATOR))
    try:
        arguments, end = _DECODER.raw_decode(source, start)
    except (ValueError, RecursionError):
        return None, start
    close = skip_space(source, end)
    if not isinstance(arguments, dict) or not source.startswith(_CLOSE, close):
        return None, close
    return ParsedCall(name, source[start:end]), close + len(_CLOSE)

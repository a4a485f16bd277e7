"""What every tool parser shares: the reply it makes of sampled text, its protocol, and the search for calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from lego_verl.capture.message import Tool


@dataclass(frozen=True)
class ParsedCall:
    name: str
    arguments: str
    """A JSON object as a string: verbatim as it was sampled, where the family samples JSON."""


@dataclass(frozen=True)
class Parsed:
    text: str
    reasoning: str = ""
    calls: tuple[ParsedCall, ...] = ()
    malformed: int = 0
    """Calls that were begun and could not be read; they are part of ``text``."""


class ToolParser(Protocol):
    name: str

    def parse(self, text: str, *, reasoning_open: bool = False, tools: Sequence[Tool] = ()) -> Parsed:
        """Read a sampled turn, its end token removed.

        Args:
            reasoning_open: the prompt already opened the reasoning.
            tools: those of the request: families that sample arguments without types read the types there.
        """
        ...

    def write(self, text: str, reasoning: str, calls: Sequence[ParsedCall], *, reasoning_open: bool = False) -> str:
        """What a policy would sample to say this: the inverse of ``parse``, for scripts."""
        ...


def split_reasoning(text: str, reasoning_open: bool) -> tuple[str, str]:
    """Reasoning and the rest. Reasoning that was cut before its end is all there is."""
    if not reasoning_open:
        head = text.lstrip()
        if not head.startswith("<think>"):
            return "", text
        text = head[len("<think>") :]
    reasoning, closed, rest = text.partition("</think>")
    return reasoning.strip("\n"), rest.lstrip("\n") if closed else ""


def write_reasoning(reasoning: str, reasoning_open: bool) -> str:
    """The inverse of ``split_reasoning``: what stands before the rest."""
    if not reasoning and not reasoning_open:
        return ""
    return f"{reasoning}\n</think>\n\n" if reasoning_open else f"<think>\n{reasoning}\n</think>\n\n"


ReadCall = Callable[[str, int], tuple[ParsedCall | None, int]]
"""Reads one call that begins after its marker at a position: the call, or None when it is malformed, and its end."""


def find_calls(text: str, marker: str, read: ReadCall) -> tuple[str, tuple[ParsedCall, ...], int]:
    """The text without its calls, the calls, and how many were begun and could not be read (they stay text)."""
    calls: list[ParsedCall] = []
    kept: list[str] = []
    malformed = end = 0
    start = text.find(marker)
    while start >= 0:
        call, after = read(text, start + len(marker))
        if call is None:
            malformed += 1
            start = text.find(marker, start + len(marker))
        else:
            kept.append(text[end:start])
            calls.append(call)
            end = after
            start = text.find(marker, end)
    kept.append(text[end:])
    return "".join(kept), tuple(calls), malformed

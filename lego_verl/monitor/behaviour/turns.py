"""A trial's calls as turns: what the agent said, what its tools did and gave back. No tokens, no harness."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson

from lego_verl.capture.message import Message, Origin, Tool, ToolCall
from lego_verl.capture.session import Asked
from lego_verl.capture.split import Split
from lego_verl.monitor.behaviour.act import Act
from lego_verl.monitor.behaviour.tools import Done, read_call

_FENCE = re.compile(r"```(?:\w*bash\w*|sh|shell)[ \t]*\n(.*?)\n?```", re.DOTALL)
_LEFT_IN_TEXT = re.compile(r"<tool_call>|<function=|<\uff5ctool\u2581call\u2581begin\uff5c>|\[TOOL_CALLS\]")
_SPECIAL = re.compile(r"<\|[a-z_]{1,20}\|>")
_FAILED = re.compile(
    r"\A\s*(?:OBSERVATION:\s*)?(?:<tool_use_error>|Exit code [1-9]|Error\b|ERROR\b|No replacement was performed"
    r"|Invalid `|The arguments provided to the tool are invalid|unsupported call|Tool '[^']*' not found"
    r"|Error validating|apply_patch verification failed|oldString not found|File not found)"
    r"|<returncode>\s*-?[1-9]|\"returncode\":\s*-?[1-9]|Process exited with code [1-9]"
    r"|\[(?:The c|C)ommand (?:completed|finished) with exit code -?[1-9]|^Traceback \(most recent call last\):",
    re.MULTILINE,
)
_LOOKED_AT = 4000
"""Characters at both ends of an output in which its tool says how it went."""


@dataclass(frozen=True)
class Turn:
    """One reply and what came of it."""

    call: int
    origin: Origin
    characters: int
    """Of the whole reply: thinking, text, names and arguments of tool calls."""
    thinking_characters: int
    done: tuple[Done, ...]
    """Its tool calls, in order; for a harness without tools the commands that stand in its text."""
    failed: tuple[bool, ...]
    """Of each: whether its tool said that it failed."""
    malformed: int
    """Calls that cannot be carried out, those included that stayed text."""
    said: str
    """Its text, where it called nothing."""

    @property
    def silent(self) -> bool:
        """Without any tool call, also a malformed one."""
        return not self.done and not self.malformed

    @property
    def acts(self) -> list[Act]:
        return [act for each in self.done for act in each.acts]

    @property
    def signature(self) -> str:
        """The same for turns that ask for the same."""
        return "\n".join(each.key for each in self.done) or " ".join(self.said.split())[:2000]


def turns_of(asked: Sequence[Asked], replies: Sequence[Message], splits: Mapping[int, str]) -> list[Turn]:
    """The turns of a trial, in the order of its calls.

    Args:
        splits: why the segment of each call began, by the call's index: tells side calls and subagents.
    """
    results = {
        message.tool_call_id: message.text
        for each in asked
        for message in each.messages
        if message.role == "tool" and message.tool_call_id
    }
    offered: dict[str, Sequence[Tool]] = {}
    turns = []
    for index, (each, reply) in enumerate(zip(asked, replies, strict=True)):
        origin = _origin(each.origin, splits.get(index, ""))
        if each.tools is not None:
            offered[origin] = each.tools
        turns.append(_turn(index, origin, reply, offered.get(origin, ()), results, _answer(asked, index)))
    return turns


def _turn(
    index: int, origin: Origin, reply: Message, tools: Sequence[Tool], results: Mapping[str, str], answer: str
) -> Turn:
    done = [read_call(call, tools) for call in reply.tool_calls]
    told = [results.get(call.id, "") for call in reply.tool_calls]
    left = 0
    if not done and not tools:  # a harness that takes its commands from the text
        commands = _FENCE.findall(reply.text)
        done = [read_call(ToolCall("", "bash", _as_arguments(command))) for command in commands]
        told = [answer] * len(done)
    elif not done:
        left = len(_LEFT_IN_TEXT.findall(reply.text))
    spoken = _SPECIAL.sub("", reply.text)
    arguments = sum(len(call.name) + len(call.arguments) for call in reply.tool_calls)
    return Turn(
        call=index,
        origin=origin,
        characters=len(reply.reasoning) + len(spoken) + arguments,
        thinking_characters=len(reply.reasoning) + sum(len(each) for each in _thoughts(spoken)),
        done=tuple(done),
        failed=tuple(says_it_failed(text) for text in told),
        malformed=sum(bool(each.malformed) for each in done) + left,
        said="" if done else spoken,
    )


def says_it_failed(output: str) -> bool:
    """Whether a tool's output says that the tool failed: an exit code other than 0, an error in place of a result."""
    if len(output) > 2 * _LOOKED_AT:
        output = f"{output[:_LOOKED_AT]}\n{output[-_LOOKED_AT:]}"
    return _FAILED.search(output) is not None


def _thoughts(text: str) -> list[str]:
    """Thinking that a parser left in the text."""
    if "</think>" not in text:
        return []
    return [text.split("</think>", 1)[0].replace("<think>", "")]


def _origin(said: Origin, split: str) -> Origin:
    if said != "main":
        return said
    if split == Split.SIDE_CALL:
        return "side_call"
    return "subagent" if split == Split.SUBAGENT else "main"


def _answer(asked: Sequence[Asked], index: int) -> str:
    """What the next request added: the output of a harness that has no tool messages."""
    return "\n".join(message.text for message in asked[index + 1].messages) if index + 1 < len(asked) else ""


def _as_arguments(command: str) -> str:
    return orjson.dumps({"command": command}).decode()

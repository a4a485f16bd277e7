"""The chat form, for supervised fine-tuning: a line a segment, in the messages of OpenAI's chat completions.

A trial whose history was rewritten under way (compacted, edited) has several lines: each reply stands in the context in
which it was sampled. Replies of an earlier segment that stand in a later one's context have ``"weight": 0``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lego_verl.capture.record import Recording
from lego_verl.capture.split import Split
from lego_verl.export.segments import Said, conversations

_NOT_THE_AGENT = (Split.SIDE_CALL, Split.SUBAGENT)


def chat_lines(recording: Recording, about: Mapping[str, Any], *, reasoning: bool = True) -> Iterator[dict[str, Any]]:
    """The lines of one trial.

    Args:
        about: what is known of it; each line's ``metadata``, with the segment.
        reasoning: keep what was thought, as ``reasoning_content``.
    """
    for each in conversations(recording):
        if each.reason in _NOT_THE_AGENT:
            continue
        yield {
            "messages": [_message(said, reasoning) for said in each.said],
            "tools": list(each.tools),
            "metadata": {**about, "segment": each.segment, "segment_reason": each.reason},
        }


def _message(said: Said, reasoning: bool) -> dict[str, Any]:
    message = said.message
    line: dict[str, Any] = {"role": message.role, "content": message.text}
    if reasoning and message.reasoning:
        line["reasoning_content"] = message.reasoning
    if message.tool_calls:
        line["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id:
        line["tool_call_id"] = message.tool_call_id
    if message.role == "assistant" and said.call is None:
        line["weight"] = 0
    return line

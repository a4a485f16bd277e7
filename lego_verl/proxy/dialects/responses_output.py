"""A reply as output items of the Responses protocol, and as the events in which each of them arrives."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from lego_verl.capture.message import ToolCall
from lego_verl.proxy.dialects.responses_custom import to_client
from lego_verl.proxy.dialects.responses_reasoning import seal
from lego_verl.proxy.dialects.responses_tools import Offered
from lego_verl.proxy.exchange import Answer

Item = dict[str, Any]
Event = dict[str, Any]


def output_items(answer: Answer, offered: Mapping[str, Offered]) -> list[Item]:
    """Reasoning, text and calls. Ids come from the answer's own, so that a retry sees the same ones.

    An empty reply is an empty message: a client that sends its history back must have something to send.
    """
    message = answer.message
    items: list[Item] = []
    if message.reasoning:
        summary = [{"type": "summary_text", "text": message.reasoning}]
        sealed = seal(message.reasoning)
        items.append({"id": f"rs_{answer.id}", "type": "reasoning", "summary": summary, "encrypted_content": sealed})
    if message.text or (not items and not message.tool_calls):
        content = [{"type": "output_text", "text": message.text, "annotations": [], "logprobs": []}]
        status = "incomplete" if answer.finish == "length" else "completed"
        items.append(
            {"id": f"msg_{answer.id}", "type": "message", "role": "assistant", "status": status, "content": content}
        )
    items.extend(_call(answer.id, index, call, offered) for index, call in enumerate(message.tool_calls))
    return items


def _call(answer_id: str, index: int, call: ToolCall, offered: Mapping[str, Offered]) -> Item:
    target = offered.get(call.name) or Offered("function", call.name)
    if target.kind == "custom":
        call_id, given = to_client(call.id, call.arguments)
        item = {"id": f"ctc_{answer_id}{index:02}", "type": "custom_tool_call", "call_id": call_id, "input": given}
    else:
        item = {"id": f"fc_{answer_id}{index:02}", "type": "function_call", "call_id": call.id}
        item["arguments"] = call.arguments
    item |= {"name": target.name, "status": "completed"}
    if target.namespace is not None:
        item["namespace"] = target.namespace
    return item


def item_events(item: Item, output_index: int) -> Iterator[Event]:
    """How one item arrives: empty, in one piece, whole."""
    kind = item["type"]
    empty: Item = {**item, "status": "in_progress", **_EMPTY[kind]}
    place = {"item_id": item["id"], "output_index": output_index}
    yield {"type": "response.output_item.added", "output_index": output_index, "item": empty}
    if kind == "reasoning":
        yield from _part_events("response.reasoning_summary_part", {**place, "summary_index": 0}, item["summary"][0])
    elif kind == "message":
        yield from _part_events("response.content_part", {**place, "content_index": 0}, item["content"][0])
    elif kind == "function_call":
        yield {"type": "response.function_call_arguments.delta", **place, "delta": item["arguments"]}
        done = {**place, "name": item["name"], "arguments": item["arguments"]}
        yield {"type": "response.function_call_arguments.done", **done}
    else:
        yield {"type": "response.custom_tool_call_input.delta", **place, "delta": item["input"]}
        yield {"type": "response.custom_tool_call_input.done", **place, "input": item["input"]}
    yield {"type": "response.output_item.done", "output_index": output_index, "item": item}


_EMPTY: Mapping[str, Item] = {
    "reasoning": {"summary": [], "encrypted_content": None},
    "message": {"content": []},
    "function_call": {"arguments": ""},
    "custom_tool_call": {"input": ""},
}


def _part_events(name: str, place: dict[str, Any], part: dict[str, Any]) -> Iterator[Event]:
    text = "response.reasoning_summary_text" if part["type"] == "summary_text" else "response.output_text"
    extra: dict[str, Any] = {"logprobs": []} if part["type"] == "output_text" else {}
    yield {"type": f"{name}.added", **place, "part": {**part, "text": ""}}
    if part["text"]:
        yield {"type": f"{text}.delta", **place, "delta": part["text"], **extra}
    yield {"type": f"{text}.done", **place, "text": part["text"], **extra}
    yield {"type": f"{name}.done", **place, "part": part}

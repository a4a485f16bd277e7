"""Calls of custom tools: a raw string for the client, a function with the parameter ``input`` for the policy.

A policy may sample other arguments than that parameter. Their raw string is then the tool's input, and the id of
the call says so, since the id is what every client sends back unchanged: without that mark a raw ``{"a": 1}`` and a
parameter whose text is ``{"a": 1}`` would come back as the same history.
"""

from __future__ import annotations

from typing import NamedTuple

import orjson

_RAW = "_raw"


class CustomCall(NamedTuple):
    """A call as the client sees it."""

    call_id: str
    input: str


def to_client(call_id: str, arguments: str) -> CustomCall:
    """Sampled arguments to the tool's input."""
    try:
        value = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        value = None
    if isinstance(value, dict) and len(value) == 1 and isinstance(value.get("input"), str):
        return CustomCall(call_id, value["input"])
    return CustomCall(call_id + _RAW, arguments)


def to_arguments(call: CustomCall) -> str:
    """The arguments that were sampled, up to their spelling."""
    return call.input if call.call_id.endswith(_RAW) else orjson.dumps({"input": call.input}).decode()


def sampled_id(call_id: str) -> str:
    """A call's id without the mark."""
    return call_id.removesuffix(_RAW)

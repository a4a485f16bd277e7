"""A name for a renderer that follows from what it does: two with the same name make the same ids of a few messages."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache, partial

import jinja2
import numpy as np

from lego_verl.capture.message import Message, Tool, ToolCall
from lego_verl.capture.render import Renderer

_TOOLS: tuple[Tool, ...] = (
    {"type": "function", "function": {"name": "probe", "description": "d", "parameters": {"type": "object"}}},
)
_OPENINGS = ((Message("system", "Probe. é\n1234567"), Message("user", "Hello  world")), (Message("user", "Hello"),))
_TURN = Message("assistant", "calling", tool_calls=(ToolCall("call_1", "probe", '{"a": [1, 2]}'),))
_ADDED = ((Message("tool", "result", tool_call_id="call_1"),), (Message("user", "def f(x):\n    return x"),))


@lru_cache(maxsize=8)
def fingerprint(renderer: Renderer) -> str:
    """16 hexadecimal digits over what a renderer makes of a few fixed conversations.

    It tells templates and tokenizers apart by their effect; it is no proof that two agree on every message. Made once
    for a renderer: every trial's recording names it, and rendering takes as long as the rest of writing one.
    """
    makers: list[Callable[[], list[int]]] = [
        *(partial(renderer.initial, opening, tools) for opening in _OPENINGS for tools in ((), _TOOLS)),
        *(partial(renderer.addition, _TURN, added, _TOOLS, last_id=renderer.close_id) for added in _ADDED),
    ]
    digest = hashlib.sha256(bytes([renderer.reasoning_open]))
    for ids in ([renderer.close_id], *map(_made, makers)):
        digest.update(np.asarray([len(ids), *ids], dtype=np.int32).tobytes())
    return digest.hexdigest()[:16]


def _made(make: Callable[[], list[int]]) -> list[int]:
    """What is made, or nothing where a template refuses the probe: some know no system message, some no tools."""
    try:
        return make()
    except (ValueError, TypeError, LookupError, jinja2.TemplateError):
        return []

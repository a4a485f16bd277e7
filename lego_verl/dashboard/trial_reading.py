"""A trial's recording as the Trial view shows it: turns with shortened texts, and what a text was before.

What an agent or a tool wrote may hold anything and be of any size. What is shown is made harmless
(``store_text.harmless``) and short here, on the server, with its size said; the whole goes out only as a download.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from lego_verl.capture.message import Message
from lego_verl.capture.record import Recording, read_recording
from lego_verl.capture.token_table import table_of
from lego_verl.monitor.behaviour.turns import Turn, turns_of
from lego_verl.monitor.store_text import harmless

SHOWN = 6000
"""Characters of a text that are shown: its beginning and its end."""
REPLY = -1
"""The number of a call's reply among its messages."""
_KINDS = {"patch": "patch.diff", "harness_log": "harness.log", "grading_log": "grading.log"}
FILES = tuple(_KINDS)


def recording_of(folder: Path) -> Recording:
    """A trial's recording, of which the latest few stay in memory. ``RecordingError`` as ``read_recording``."""
    return _recording(folder, _changed(folder))


@lru_cache(maxsize=4)
def _recording(folder: Path, _stamp: tuple[int, ...]) -> Recording:
    return read_recording(folder)


def _changed(folder: Path) -> tuple[int, ...]:
    """Another one once a trial is written, or its tokens moved into their step's file."""
    stamps = []
    for path in (folder / "calls.jsonl", folder / "tokens.npz", table_of(folder)):
        try:
            about = path.stat()
        except OSError:
            stamps.append(0)
            continue
        stamps += [about.st_mtime_ns, about.st_size]
    return tuple(stamps)


def short(text: str, limit: int = SHOWN) -> dict[str, Any]:
    """A text to show: ``text``, ``size`` (characters of the whole) and, where it was shortened, ``end``, with
    ``left_out`` characters between the two."""
    if len(text) <= limit:
        return {"text": harmless(text), "size": len(text)}
    half = limit // 2
    return {
        "text": harmless(text[:half]),
        "end": harmless(text[-half:]),
        "left_out": len(text) - 2 * half,
        "size": len(text),
    }


def turns(recording: Recording, first: int, count: int, limit: int = SHOWN) -> list[dict[str, Any]]:
    """The calls from ``first`` on, each with what was new in its request, and its reply."""
    splits = [str(split) for split in recording.splits]
    read = turns_of(recording.asked, recording.replies, {call.index: splits[call.segment] for call in recording.calls})
    begins: dict[int, int] = {}
    for call in recording.calls:
        begins.setdefault(call.segment, call.index)
    found = []
    for call in recording.calls[first : first + count]:
        asked, reply, sample = recording.asked[call.index], recording.replies[call.index], call.sample
        tools = asked.tools
        found.append(
            {
                "call": call.index,
                "segment": call.segment,
                "begins": splits[call.segment] if begins[call.segment] == call.index else None,
                "kept": asked.kept,
                "origin": read[call.index].origin,
                "prompt_tokens": call.prompt_length,
                "sampled_tokens": len(sample.ids),
                "finish": sample.finish,
                "seconds": call.seconds,
                "versions": sorted({int(version) for version in sample.versions}),
                "mean_logprob": float(sample.logprobs.mean()) if len(sample.logprobs) else None,
                "tools": None if tools is None else [_tool(tool) for tool in tools],
                "messages": [_message(message, limit) for message in asked.messages],
                "reply": {**_message(reply, limit), **_acts(read[call.index])},
            }
        )
    return found


def text_of(recording: Recording, call: int, message: int, part: str) -> str:
    """The whole of a text that ``turns`` shortened.

    Args:
        message: its place among the call's messages; ``REPLY`` for the reply.
        part: ``text``, ``reasoning``, or the place of a tool call, whose arguments it is.

    Raises:
        LookupError, ValueError: where there is none.
    """
    if not 0 <= call < len(recording.calls) or message < REPLY:
        raise LookupError(f"call {call}")
    found = recording.replies[call] if message == REPLY else recording.asked[call].messages[message]
    if part in ("text", "reasoning"):
        return found.text if part == "text" else found.reasoning
    return found.tool_calls[int(part)].arguments


def _message(message: Message, limit: int) -> dict[str, Any]:
    return {
        "role": message.role,
        "text": short(message.text, limit),
        "reasoning": short(message.reasoning, limit) if message.reasoning else None,
        "answers": harmless(message.tool_call_id or "", 80) or None,
        "tool_calls": [
            {"id": harmless(call.id, 80), "name": harmless(call.name, 200), **_arguments(call.arguments, limit)}
            for call in message.tool_calls
        ],
    }


def _arguments(text: str, limit: int) -> dict[str, Any]:
    """Of a JSON object each value by its name, strings as they are to be read; else the text."""
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if not isinstance(given, Mapping):
        return {"arguments": None, "raw": short(text, limit)}
    shown = {}
    for name, value in given.items():
        plain = value if isinstance(value, str) else json.dumps(value, indent=1, ensure_ascii=False)
        shown[harmless(name, 200)] = short(plain, limit)
    return {"arguments": shown, "size": len(text)}


def _acts(turn: Turn) -> dict[str, Any]:
    calls: Sequence[dict[str, Any]] = [
        {
            "kinds": [str(act.kind) for act in done.acts],
            "failed": failed,
            "malformed": harmless(done.malformed, 200) if done.malformed else None,
        }
        for done, failed in zip(turn.done, turn.failed, strict=True)
    ]
    return {"acts": calls, "malformed": turn.malformed, "silent": turn.silent}


def _tool(tool: Mapping[str, Any]) -> dict[str, str]:
    function = tool.get("function", tool)
    about = function if isinstance(function, Mapping) else {}
    return {"name": harmless(about.get("name", ""), 200), "description": harmless(about.get("description") or "", 600)}


def file_path(folder: Path, kind: str) -> Path:
    """One of a trial's ``FILES``. ``LookupError`` for another."""
    return folder / _KINDS[kind]


def file_text(path: Path, limit: int) -> dict[str, Any] | None:
    """Beginning and end of a file as ``short`` has it, read without the rest; ``size`` is in bytes. None where there
    is none."""
    try:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size <= limit:
                return {"text": harmless(file.read().decode("utf-8", "replace")), "size": size}
            half = limit // 2
            first = file.read(half)
            file.seek(size - half)
            last = file.read(half)
    except FileNotFoundError:
        return None
    return {
        "text": harmless(first.decode("utf-8", "replace")),
        "end": harmless(last.decode("utf-8", "replace")),
        "left_out": size - 2 * half,
        "size": size,
    }

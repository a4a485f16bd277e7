"""A recording with everything in it that a capture can hold, and a serve verb in a process of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import sys
from collections.abc import AsyncIterator, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import orjson

from lego_verl.capture.bytelevel import byte_renderer
from lego_verl.capture.call import Sample
from lego_verl.capture.message import Message, Request
from lego_verl.capture.parser import HermesParser, ParsedCall
from lego_verl.capture.record import write_recording
from lego_verl.capture.session import Prepared, SessionCapture

RENDERER, PARSER = byte_renderer(), HermesParser()
SYSTEM, USER = Message("system", "Be brief."), Message("user", "Fix it.")
TOOLS: tuple[dict[str, Any], ...] = ({"type": "function", "function": {"name": "bash"}},)
SCRIPT = [
    {"text": "ok é", "tool_calls": [{"name": "bash", "arguments": {"command": "ls"}}]},
    {"text": "done", "reasoning": "hm"},
]


class Recorder:
    """Plays a harness and a policy on a capture."""

    def __init__(self, renderer: Any = RENDERER) -> None:
        self.renderer = renderer
        self.capture = SessionCapture(renderer, PARSER)
        self._serial = count(1)
        self._minted = count(1)

    def prepare(self, *messages: Message, **request: Any) -> Prepared:
        return self.capture.prepare(Request(tuple(messages), **{"tools": TOOLS, **request}))

    def commit(self, prepared: Prepared, text: str, **options: Any) -> Message:
        """``text`` as sampled, in ids that its encoding would not have where it has a letter beyond ASCII."""
        ids = [*self.renderer.encode(text), self.renderer.close_id]
        sample = Sample(
            ids=np.array(ids, dtype=np.int32),
            logprobs=-np.array([next(self._serial) for _ in ids], dtype=np.float32) / 1024,
            versions=np.full(len(ids), len(self.capture.calls), dtype=np.int32),
            finish="stop",
        )
        mint = lambda: f"call_{next(self._minted)}"  # noqa: E731
        return self.capture.commit(prepared, sample, seconds=0.5, mint=mint, **options).message

    def ask(self, *messages: Message, says: str, **request: Any) -> Message:
        return self.commit(self.prepare(*messages, **request), says)


def bash_text(command: str) -> str:
    return PARSER.write("running", "", [ParsedCall("bash", f'{{"command":  "{command}"}}')])


def record_everything(folder: Path, renderer: Any = RENDERER) -> SessionCapture:
    """Extensions, an edit, two calls that overlap, a sub-agent, a side call, a stop string, and a lost generation."""
    recorder = Recorder(renderer)
    opening = [SYSTEM, USER]
    turn = recorder.ask(*opening, says=bash_text("ls"))
    history = [*opening, turn, Message("tool", "a.py", tool_call_id=turn.tool_calls[0].id)]
    # Both go on from the same place; the second one to finish is prepared before the first one is there.
    other = Message("tool", "another a.py", tool_call_id=turn.tool_calls[0].id)
    first, second = recorder.prepare(*history), recorder.prepare(*history[:3], other)
    recorder.commit(first, "<think>\nhm\n</think>\n\nanswer")
    recorder.commit(second, "another")
    recorder.ask(Message("system", "Title"), Message("user", "T"), says="a title", tools=(), origin="side_call")
    recorder.ask(Message("user", "Help with the tests."), says="helped", origin="subagent")
    edited = [*opening, turn, Message("tool", "b.py", tool_call_id=turn.tool_calls[0].id)]
    recorder.commit(recorder.prepare(*edited), "before STOP after", stop=("STOP",))
    recorder.capture.lose("closed", 4)
    write_recording(folder, recorder.capture)
    return recorder.capture


def rewrite_calls(folder: Path, change: Any) -> None:
    """Change the lines of ``calls.jsonl`` (the header first) in place."""
    path = folder / "calls.jsonl"
    lines = [orjson.loads(line) for line in path.read_bytes().splitlines()]
    change(lines)
    path.write_bytes(b"".join(orjson.dumps(line) + b"\n" for line in lines))


def rewrite_tokens(folder: Path, change: Any) -> None:
    """Change the arrays of ``tokens.npz`` in place."""
    with np.load(folder / "tokens.npz") as file:
        arrays = dict(file)
    change(arrays)
    np.savez(folder / "tokens.npz", **arrays)


def write_script(path: Path, replies: Sequence[dict[str, Any]] = SCRIPT) -> Path:
    path.write_text("".join(json.dumps(reply) + "\n" for reply in replies))
    return path


async def verb(*arguments: str, cwd: Path, **environment: str) -> tuple[int, str, str]:
    """Run ``python -m …``; its exit code, output and errors."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", *arguments),
        cwd=cwd,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    out, errors = await asyncio.wait_for(process.communicate(), 120)
    return process.returncode or 0, out.decode(), errors.decode()


@contextlib.asynccontextmanager
async def serving(cwd: Path, *arguments: str, module: str = "lego_verl.serve") -> AsyncIterator[Any]:
    """A serve verb that has said its address; the process, with ``url`` beside it. It is killed at the end."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", module, *arguments),
        cwd=cwd,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        assert process.stdout is not None
        line = await asyncio.wait_for(process.stdout.readline(), 60)
        process.url = line.decode().removesuffix("\n")  # type: ignore[attr-defined]
        yield process
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()

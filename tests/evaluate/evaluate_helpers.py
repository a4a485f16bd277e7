"""Tasks of one line, a model server that mends them, and the command."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web

from lego_verl.monitor.run_folder import read_lines
from lego_verl.tasks.harbor import read_task
from lego_verl.tasks.harbor_writer import TaskFiles, write_task
from lego_verl.tasks.task import Task

ROOT = Path(__file__).parents[2]
_TEST = b"""#!/bin/bash
if grep -q mended answer.txt; then echo 1; else echo 0; fi >/logs/verifier/reward.txt
"""


def make_task(folder: Path, *, dockerfile: str = "FROM scratch\nWORKDIR /testbed\nCOPY repo/ /testbed/\n") -> Task:
    environment = {"Dockerfile": dockerfile.encode(), "repo/answer.txt": b"broken\n"}
    solution = {"solve.sh": b"cd /testbed\necho mended >answer.txt\n"}
    files = TaskFiles(
        f"The task {folder.name}: write mended into answer.txt.", environment, {"test.sh": _TEST}, solution
    )
    write_task(folder, files)
    return read_task(folder)


@dataclass
class Endpoint:
    """Mends a task in two turns, in the made-up harness's words."""

    url: str = ""
    refuses: str = "none"
    """A word of the instruction of tasks for which it answers 400."""
    temperatures: set[float] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)

    async def handle(self, request: web.Request) -> web.Response:
        body = json.loads(await request.read())
        self.temperatures.add(body["temperature"])
        self.keys.add(request.headers.get("Authorization", ""))
        if f"The task {self.refuses}:" in body["messages"][1]["content"]:
            return web.json_response({"error": {"message": "not this one"}}, status=400)
        message: dict[str, Any] = {"role": "assistant", "content": "Done."}
        if len(body["messages"]) == 2:
            function = {"name": "run", "arguments": json.dumps({"cmd": "echo mended >answer.txt"})}
            message = {"role": "assistant", "tool_calls": [{"id": "a", "type": "function", "function": function}]}
        usage = {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15}
        return web.json_response({"choices": [{"index": 0, "message": message}], "usage": usage})


async def started(made_up: Path, out: Path, *arguments: str) -> asyncio.subprocess.Process:
    """The command, with the made-up harness installed."""
    return await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "lego_verl.evaluate", f"out={out}", "tasks.check=false", *arguments),
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(made_up)},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


async def command(made_up: Path, out: Path, *arguments: str) -> tuple[int, str, str]:
    process = await started(made_up, out, *arguments)
    printed, errors = await asyncio.wait_for(process.communicate(), 240)
    assert process.returncode is not None
    return process.returncode, printed.decode(), errors.decode()


def cells(out: Path) -> dict[str, Any]:
    """The summary's cells by harness and turns."""
    summary = json.loads((out / "summary.json").read_text())
    return {f"{cell['harness']} {cell['turns']}": cell for cell in summary["cells"]}


def starts(out: Path) -> Counter[str]:
    """How often each trial was begun."""
    return Counter(event["trial"] for event in read_lines(out / "events.jsonl") if event["event"] == "started")

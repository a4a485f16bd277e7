"""A task of one line, harnesses that are one script, and a bench of real parts."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar

from harness_adapters.adapter import Ending, HarnessAdapter, HarnessContext, Runtime
from lego_verl.capture.bytelevel import byte_renderer
from lego_verl.capture.parser import HermesParser
from lego_verl.policies.scripted import ScriptedPolicy
from lego_verl.tasks.harbor import read_task
from lego_verl.tasks.harbor_writer import TaskFiles, write_task
from lego_verl.tasks.task import Task
from lego_verl.trial.bench import Bench
from lego_verl.trial.limits import TrialLimits
from lego_verl.trial.record import FinishedTrial
from lego_verl.trial.run import run_trial
from sandbox.sandbox import Backend, Sandbox, SandboxSpec

RENDERER, PARSER = byte_renderer(), HermesParser()
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
MEND = "echo mended >answer.txt"
TEST = b"""#!/bin/bash
if grep -q mended answer.txt; then echo 1; else echo 0; fi >/logs/verifier/reward.txt
"""
_ASK = """\
import json, os, sys, urllib.error, urllib.request
body = {"model": "policy", "messages": [{"role": "user", "content": f"question {sys.argv[1:]}"}]}
request = urllib.request.Request(os.environ["LEGO_URL"] + "/v1/chat/completions", json.dumps(body).encode(),
                                 {"Content-Type": "application/json"})
try:
    print(json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"])
except urllib.error.HTTPError as error:
    sys.exit(f"the model answered {error.code}: {error.read().decode()}")
"""


def make_task(
    folder: Path,
    *,
    test: bytes = TEST,
    files: Mapping[str, bytes] | None = None,
    dockerfile: str = "",
    solution: Mapping[str, bytes] | None = None,
) -> Task:
    """Mend ``answer.txt``: write "mended" into it."""
    environment = {
        "Dockerfile": (dockerfile or "FROM scratch\nWORKDIR /testbed\nCOPY repo/ /testbed/\n").encode(),
        "repo/answer.txt": b"broken\n",
        **{f"repo/{name}": content for name, content in (files or {}).items()},
    }
    solution = solution or {"solve.sh": b"set -e\ncd /testbed\necho mended >answer.txt\n"}
    write_task(folder, TaskFiles("Write mended into answer.txt.", environment, {"test.sh": test}, solution))
    return read_task(folder)


class ScriptHarness(HarnessAdapter):
    """A harness that is one bash script; ``ask WORD`` in it is one call of the model."""

    name: ClassVar[str] = "script"
    end_status: ClassVar[int] = 401

    def __init__(self, script: str) -> None:
        self.script = script

    @property
    def runtime(self) -> Runtime:
        raise NotImplementedError("it needs none")

    def files(self, context: HarnessContext) -> Mapping[str, bytes]:
        return {f"{context.home}/ask.py": _ASK.encode()}

    def command(self, context: HarnessContext) -> Sequence[str]:
        ask = f'ask() {{ "{context.python}" {context.home}/ask.py "$@"; }}\n'
        return ["bash", "-c", ask + self.script]

    def environment(self, context: HarnessContext) -> Mapping[str, str]:
        return {"LEGO_URL": context.base_url}

    def ending(self, exit_code: int | None, output: str) -> Ending:
        return {0: "finished", 7: "gave_up"}.get(exit_code, "failed")  # type: ignore[call-overload, no-any-return]


@dataclass
class Watched:
    """A backend that counts what it starts, keeps it for the test to look at, and can be told to fail."""

    backend: Any
    sandboxes: dict[str, Sandbox] = field(default_factory=dict)
    started: list[str] = field(default_factory=list)
    fail: Exception | None = None
    fail_on: str = ""

    @property
    def name(self) -> str:
        return str(self.backend.name)

    @property
    def scratch(self) -> Any:
        return self.backend.scratch

    @property
    def shares_usr(self) -> bool:
        return bool(self.backend.shares_usr)

    async def check(self) -> None:
        await self.backend.check()

    async def start(self, spec: SandboxSpec) -> Sandbox:
        self.started.append(spec.trial)
        if self.fail is not None and self.fail_on in spec.trial:
            raise self.fail
        sandbox: Sandbox = await self.backend.start(spec)
        self.sandboxes[spec.trial] = sandbox
        return sandbox

    async def reap(self, run: str | None = None) -> int:
        return int(await self.backend.reap(run))


def bash(*commands: str, **more: Any) -> dict[str, Any]:
    """A reply of a script: one message with these calls."""
    return {"tool_calls": [{"name": "bash", "arguments": {"command": command}} for command in commands], **more}


def policy(*replies: Mapping[str, Any], repeat: str = "last") -> ScriptedPolicy:
    script = list(replies) or [{"text": "an answer"}]
    return ScriptedPolicy(script, renderer=RENDERER, parser=PARSER, repeat=repeat)  # type: ignore[arg-type]


async def trial(bench: Bench, name: str, task: Task, *replies: Mapping[str, Any], **more: Any) -> FinishedTrial:
    """A trial with a scripted policy and a script's limits."""
    limits = {"turns": 9, "tokens": 100_000, "seconds": 60.0, "grading_seconds": 20.0, **more.pop("limits", {})}
    given = {"policy": policy(*replies), "renderer": RENDERER, "parser": PARSER, "limits": TrialLimits(**limits)}
    return await run_trial(bench, trial=name, task=task, **{**given, **more})


def nothing_left(bench: Bench) -> list[str]:
    """What is still there of a bench's trials, by name."""
    probe = bench.scratch.folder(bench.run, "probe")
    left = [f"folder {path.name}" for path in probe.parent.iterdir() if path.name not in ("owner", probe.name)]
    left += [f"session {name}" for name in bench.server._open]
    return left + [f"process {pid}" for pid in sandboxes_of(os.getpid())]


def sandboxes_of(pid: int) -> list[str]:
    """The processes of sandboxes that a process has started."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid and (path / "cmdline").read_bytes().startswith(b"lego-sandbox"):
                found.append(path.name)
        except (OSError, ValueError):
            continue
    return found


async def until(true: Any, seconds: float = 20.0) -> None:
    """Wait for something that is about to be."""
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.02)


def as_backend(watched: Watched) -> Backend:
    return watched  # type: ignore[return-value]

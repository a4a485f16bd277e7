"""Scripts in the policy's place that need no file: they drive any harness that can run a command."""

from __future__ import annotations

import base64
import io
import tarfile
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness_adapters.adapter import ShellTool, ToolUse
from lego_verl.capture.parser import ToolParser
from lego_verl.capture.render import Renderer
from lego_verl.policies.scripted import ScriptedPolicy
from lego_verl.tasks.task import Task, TaskError
from lego_verl.trial.limits import TrialLimits

NAMED = ("oracle", "nop")
"""Scripts that need no file."""
_TOKENS = 1 << 24
"""A script speaks in bytes, for which no recipe's token limit was meant."""
_CHUNK = 60_000
"""Characters of one command: the kernel takes 128 KiB an argument."""


def scripted_policy(
    script: str | Path, task: Task, shell: ShellTool, *, renderer: Renderer, parser: ToolParser
) -> ScriptedPolicy:
    """The policy that plays a script (``oracle``, ``nop``, or a JSON-lines file of replies) for one trial.

    Raises:
        TaskError: when there is no solution for the oracle to apply.
        ScriptError: when the file cannot be used.
    """
    if script not in NAMED:
        return ScriptedPolicy(Path(script), renderer=renderer, parser=parser)
    replies = oracle_script(task, shell) if script == "oracle" else nop_script(shell)
    return ScriptedPolicy(replies, renderer=renderer, parser=parser, repeat="last")


def limits_of_script(limits: TrialLimits) -> TrialLimits:
    """A recipe's limits without those on tokens."""
    return replace(limits, tokens=_TOKENS, context=None)


def reply_of(turn: ToolUse | str) -> dict[str, Any]:
    """A turn as a reply of a scripted policy."""
    if isinstance(turn, str):
        return {"text": turn}
    return {"tool_calls": [{"name": turn.name, "arguments": dict(turn.arguments)}]}


def nop_script(shell: ShellTool) -> list[dict[str, Any]]:
    """Looks and submits nothing."""
    return [reply_of(shell.run("ls")), reply_of(shell.done)]


def oracle_script(task: Task, shell: ShellTool) -> list[dict[str, Any]]:
    """Applies the task's own solution as an agent would: by commands.

    Raises:
        TaskError: when the task has none.
    """
    solve = task.solution / "solve.sh" if task.solution else None
    if task.solution is None or solve is None or not solve.is_file():
        raise TaskError(f"task {task.name}: there is no solution/solve.sh in {task.folder} for policy.script=oracle")
    text = solve.read_text()
    if "/solution" not in text and len(text) < _CHUNK:
        solving = [text]
    else:
        # What solve.sh names as /solution is not in the sandbox: the commands bring it along.
        packed = _packed(task)
        parts = [packed[start : start + _CHUNK] for start in range(0, len(packed), _CHUNK)]
        solving = [f"printf %s {part} >>/tmp/solution.b64" for part in parts[:-1]]
        cat = "{ cat /tmp/solution.b64 2>/dev/null; printf %s " + parts[-1] + "; }"
        solving.append(f"{cat} | base64 -d | tar -xzf - -C / && bash /solution/solve.sh")
    commands = ["ls", *solving, "git diff --stat"]
    return [*(reply_of(shell.run(command)) for command in commands), reply_of(shell.done)]


def _packed(task: Task) -> str:
    assert task.solution is not None
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        tar.add(task.solution, arcname="solution")
    return base64.b64encode(out.getvalue()).decode()

"""Scripts in the policy's place that need no file: they drive any harness with a bash tool."""

from __future__ import annotations

import base64
import io
import tarfile
from typing import Any

from lego_verl.tasks.task import Task, TaskError

SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
_CHUNK = 60_000
"""Characters of one command: the kernel takes 128 KiB an argument."""


def nop_script() -> list[dict[str, Any]]:
    """Looks and submits nothing."""
    return [_bash("ls"), _bash(SUBMIT)]


def oracle_script(task: Task) -> list[dict[str, Any]]:
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
        solving.append(f"{cat} | base64 -d | tar -xzf - -C / && rm -f /tmp/solution.b64 && bash /solution/solve.sh")
    return [_bash("ls"), *(_bash(command) for command in solving), _bash("git diff --stat"), _bash(SUBMIT)]


def _packed(task: Task) -> str:
    assert task.solution is not None
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w:gz") as tar:
        tar.add(task.solution, arcname="solution")
    return base64.b64encode(out.getvalue()).decode()


def _bash(command: str) -> dict[str, Any]:
    return {"tool_calls": [{"name": "bash", "arguments": {"command": command}}]}

"""Conversations of a demonstrator with toy tasks, in the form in which a harness sends them."""

import random
import subprocess
from pathlib import Path
from shutil import copytree
from typing import Any

from harness_adapters.adapter import ToolUse
from harness_adapters.mini_swe_agent import MiniSweAgent
from lego_verl.policies.tiny.actions import ActionSet, toy_actions
from lego_verl.policies.tiny.conversation import Conversation
from lego_verl.policies.tiny.demonstrator import Demonstrator
from lego_verl.tasks.task import Task

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "bash",
            "description": "Execute a bash command",
            "parameters": {
                "type": "object",
                "properties": {"command": {"type": "string", "description": "The bash command to execute"}},
                "required": ["command"],
            },
        },
    }
]


def record(task: Task, scratch: Path, *, seed: int, actions: ActionSet | None = None) -> Conversation:
    """One conversation, with commands that really run in a copy of the repository."""
    actions = actions or toy_actions(MiniSweAgent.shell)
    rng = random.Random(f"{task.name} {seed}")
    demonstrator = Demonstrator(actions, task.metadata["kind"], task.metadata["module"])
    repository = scratch / f"{task.name}-{seed}"
    copytree(task.environment / "repo", repository)
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "You work at a shell."},
        {"role": "user", "content": f"Resolve this issue:\n{task.instruction}"},
    ]
    for turn in range(8):
        name = demonstrator.choose(messages, rng)
        action = actions.named(name)
        assert isinstance(action.turn, ToolUse)
        command = action.turn.arguments["command"]
        call = {"name": action.turn.name, "arguments": action.arguments}
        messages.append(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [{"id": f"call_{turn}", "type": "function", "function": call}],
            }
        )
        if name == "submit":
            break
        done = subprocess.run(command, shell=True, cwd=repository, capture_output=True, text=True, check=False)
        output = f"<returncode>{done.returncode}</returncode>\n<output>\n{done.stdout}</output>"
        messages.append({"role": "tool", "tool_call_id": f"call_{turn}", "content": output})
    return Conversation(messages, TOOLS, task.metadata["kind"], task.metadata["module"])

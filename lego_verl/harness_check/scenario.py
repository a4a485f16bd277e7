"""What a scenario is: the policy's part, what goes wrong on the way, and what must hold in the end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from harness_adapters.adapter import ShellTool
from lego_verl.policies.scripted import Reply
from lego_verl.trial.outcome import Outcome

MEND = "echo mended >answer.txt"
"""The work that every scenario does first: whatever happens afterwards, there is a patch that earns 1."""


@dataclass(frozen=True)
class Fault:
    """Before the reply of turn ``turn``, ``times`` requests get this status instead."""

    turn: int
    status: int
    times: int = 2
    message: str = "made up by harness_check"


@dataclass(frozen=True)
class Scenario:
    name: str
    asks: str
    """What it finds out, in a few words."""
    replies: Callable[[ShellTool, float], Sequence[Reply]]
    """The agent's turns, from its shell tool and the seconds of a slow reply; the last one is repeated."""
    outcomes: frozenset[Outcome] = frozenset({Outcome.SOLVED})
    """How the trial may end."""
    fault: Fault | None = None
    overflow: int | None = None
    """The policy's context, in tokens above the harness's first prompt."""
    told_at: int | None = None
    """The turn before which the session is ended: the harness is to stop."""
    turns: int = 30
    odd: int | None = None
    """The turn after which it is described whether the harness asks again."""


def call(shell: ShellTool, *commands: str, **more: Any) -> dict[str, Any]:
    """A reply that runs these commands, in parallel where they are several."""
    uses = [shell.run(command) for command in commands]
    return {"tool_calls": [{"name": use.name, "arguments": dict(use.arguments)} for use in uses], **more}

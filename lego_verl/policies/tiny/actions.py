"""The whole actions of a tiny policy: shell commands that are one token each, written as Hermes tool calls."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from lego_verl.tasks.toy.kinds import KINDS
from lego_verl.tasks.toy.wording import MODULES

SUBMIT_COMMAND = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"
"""How mini-swe-agent is told that the work is done."""


@dataclass(frozen=True)
class ToolForm:
    """How a harness takes a shell command: the tool's name and the argument that holds the command."""

    tool: str = "bash"
    argument: str = "command"

    def arguments(self, command: str) -> str:
        """The arguments as a JSON string."""
        return json.dumps({self.argument: command}, ensure_ascii=False)

    def call(self, command: str) -> str:
        """The complete tool call in Hermes form, as the chat template writes it."""
        return f'<tool_call>\n{{"name": "{self.tool}", "arguments": {self.arguments(command)}}}\n</tool_call>'


@dataclass(frozen=True)
class Action:
    name: str
    command: str


@dataclass(frozen=True)
class ActionSet:
    """Everything that a tiny policy can do; the order is that of the tokens."""

    actions: tuple[Action, ...]
    form: ToolForm = ToolForm()

    def named(self, name: str) -> Action:
        for action in self.actions:
            if action.name == name:
                return action
        raise KeyError(f"there is no action {name}; there are {', '.join(action.name for action in self.actions)}")

    def of_command(self, command: str) -> Action | None:
        return next((action for action in self.actions if action.command == command), None)

    @property
    def tokens(self) -> list[str]:
        """The text that each action's token decodes to."""
        return [self.form.call(action.command) for action in self.actions]


def toy_actions(form: ToolForm | None = None) -> ActionSet:
    """The actions that fit the toy repositories: look (``list``, ``show_*``), ``test``, ``edit_*``, ``submit``."""
    actions = [Action("list", "git ls-files")]
    actions += [Action(f"show_{module}", f"cat src/*/{module}.py") for module in MODULES]
    actions.append(
        # the last line alone: the others hold times, and a time would make every trial's tokens differ
        Action("test", "PYTHONPATH=src python3 -m unittest discover -q -s tests 2>&1 | tail -n 1")
    )
    actions += [Action(f"edit_{kind.name}", _sed(kind.find, kind.replace)) for kind in KINDS]
    actions.append(Action("submit", SUBMIT_COMMAND))
    return ActionSet(tuple(actions), form or ToolForm())


def _sed(find: str, replace: str) -> str:
    return f"sed -i 's/{_literal(find)}/{_literal(replace)}/' src/*/*.py"


def _literal(text: str) -> str:
    """Quote what sed would read as more than itself."""
    return "".join("\\" + char if char in r"\/.*[]^$&" else char for char in text)


def names_of(actions: Sequence[Action], prefix: str) -> list[str]:
    return [action.name for action in actions if action.name.startswith(prefix)]

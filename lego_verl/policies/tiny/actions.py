"""The whole actions of a tiny policy: turns that are one token each, most of them a shell command as a tool call."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field

from harness_adapters.adapter import ShellTool, ToolUse
from lego_verl.capture.message import Message
from lego_verl.tasks.toy.kinds import KINDS
from lego_verl.tasks.toy.wording import MODULES


@dataclass(frozen=True)
class Action:
    name: str
    turn: ToolUse | str
    """A call of one of the harness's tools, or a reply without one."""

    @property
    def text(self) -> str:
        """As the policy writes it: a call in Hermes form, just as the chat template has it."""
        if isinstance(self.turn, str):
            return self.turn
        return f'<tool_call>\n{{"name": "{self.turn.name}", "arguments": {self.arguments}}}\n</tool_call>'

    @property
    def arguments(self) -> str:
        """Of the call, as a JSON string."""
        assert isinstance(self.turn, ToolUse)
        return json.dumps(dict(self.turn.arguments), ensure_ascii=False)


@dataclass(frozen=True)
class ActionSet:
    """Everything that a tiny policy can do with a harness's tool; the order is that of the tokens."""

    actions: tuple[Action, ...]
    shell: ShellTool
    _known: dict[tuple[str, str], Action] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        known = {self._key(action.turn): action for action in self.actions}
        object.__setattr__(self, "_known", known)

    def named(self, name: str) -> Action:
        for action in self.actions:
            if action.name == name:
                return action
        raise KeyError(f"there is no action {name}; there are {', '.join(action.name for action in self.actions)}")

    def of_message(self, message: Message) -> Action | None:
        """The action that a turn of the assistant was, however the harness echoed it; None for any other turn."""
        if not message.tool_calls:
            return self._known.get(self._key(message.text.strip()))
        call = message.tool_calls[0]
        try:
            arguments = json.loads(call.arguments)
        except ValueError:
            return None
        return self._known.get(self._key(ToolUse(call.name, arguments))) if isinstance(arguments, dict) else None

    @property
    def tokens(self) -> list[str]:
        """The text that each action's token decodes to."""
        return [action.text for action in self.actions]

    def _key(self, turn: ToolUse | str) -> tuple[str, str]:
        """What a turn is known by: of a call its tool and its command, since a harness may add arguments."""
        if isinstance(turn, str):
            return "", turn
        return turn.name, str(turn.arguments.get(self.shell.argument, ""))


def toy_actions(shell: ShellTool) -> ActionSet:
    """The actions that fit the toy repositories: look (``list``, ``show_*``), ``test``, ``edit_*``, ``submit``."""
    commands = {"list": "git ls-files"}
    commands |= {f"show_{module}": f"cat src/*/{module}.py" for module in MODULES}
    # the last line alone: the others hold times, and a time would make every trial's tokens differ
    commands["test"] = "PYTHONPATH=src python3 -m unittest discover -q -s tests 2>&1 | tail -n 1"
    commands |= {f"edit_{kind.name}": _sed(kind.find, kind.replace) for kind in KINDS}
    actions = [Action(name, shell.run(command)) for name, command in commands.items()]
    return ActionSet((*actions, Action("submit", shell.done)), shell)


def _sed(find: str, replace: str) -> str:
    return f"sed -i 's/{_literal(find)}/{_literal(replace)}/' src/*/*.py"


def _literal(text: str) -> str:
    """Quote what sed would read as more than itself."""
    return "".join("\\" + char if char in r"\/.*[]^$&" else char for char in text)


def names_of(actions: Sequence[Action], prefix: str) -> list[str]:
    return [action.name for action in actions if action.name.startswith(prefix)]

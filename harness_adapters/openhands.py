"""OpenHands: the released SDK, with the parts of its default agent; or the released command line, run headless.

The SDK is a library, so ``inside/openhands_run.py`` is the program that starts it; settings and task stand in a file.
Telemetry, the look for prices of models, and the browser (which needs one) are left out.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal, get_args

from harness_adapters.adapter import Ending, HarnessAdapter, HarnessContext, HarnessError, Runtime, ShellTool, ToolUse

SDK_VERSION, CLI_VERSION = "1.58.2", "1.16.0"
_HERE = Path(__file__).parent
_PACKAGES: Mapping[str, Sequence[str]] = json.loads((_HERE / "openhands_packages.json").read_text())
"""All that each driver declares, less what it imports only when it is told to (browser-use, lmnr, tom-swe, fakeredis):
300 MB instead of 550, and no search of pip's for versions that agree, which goes on for many minutes."""
Driver = Literal["sdk", "cli"]
Terminal = Literal["subprocess", "tmux", "auto"]
_LAUNCHERS: Mapping[str, str] = {"sdk": "openhands_run", "cli": "openhands_headless"}
_TOOLS = ("terminal", "file_editor", "task_tracker", "glob", "grep", "apply_patch")
_ENDINGS: Mapping[int, Ending] = {0: "finished", 43: "gave_up", 44: "turn_limit", 45: "context_overflow"}
"""By the exit codes of ``inside/openhands_run.py`` and ``inside/openhands_headless.py``."""
_LINE_EDITOR = b"set enable-bracketed-paste off\n"
"""Or every output of a terminal without tmux would begin with escape codes."""


@dataclass(frozen=True)
class _OneCommand(ShellTool):
    """The terminal takes one command at a time: lines are several."""

    def run(self, command: str) -> ToolUse:
        return super().run(f"bash -c {shlex.quote(command)}" if "\n" in command else command)


class OpenHands(HarnessAdapter):
    """Options: ``driver`` (``sdk`` or ``cli``). Those of the SDK: ``condenser`` (summaries, asked of the policy, in the
    place of old events), ``condenser_events`` (from how many on), ``tools`` (names, comma between) and ``terminal``
    (``subprocess``, which is the same in every image, ``tmux``, or ``auto``: tmux where there is one)."""

    name: ClassVar[str] = "openhands"
    end_status: ClassVar[int] = 401
    memory_mb: ClassVar[int] = 1024
    shell: ClassVar[ShellTool] = _OneCommand(
        "terminal",
        others={"security_risk": "LOW"},  # the command line demands it
        done=ToolUse("finish", {"message": "The task is done."}),
    )

    def __init__(
        self,
        *,
        driver: Driver = "sdk",
        condenser: bool = True,
        condenser_events: int = 80,
        tools: str = "terminal,file_editor,task_tracker",
        terminal: Terminal = "subprocess",
    ) -> None:
        _one_of("driver", driver, get_args(Driver))
        _one_of("terminal", terminal, get_args(Terminal))
        for tool in tools.split(","):
            _one_of("tools", tool, _TOOLS)
        if condenser_events < 12:
            raise HarnessError(f"harness.options.condenser_events={condenser_events}: openhands needs 12 or more")
        self._driver, self._tools, self._terminal = driver, tools.split(","), terminal
        self._condenser = {"max_size": condenser_events, "keep_first": 4} if condenser else None

    @property
    def runtime(self) -> Runtime:
        launcher = _LAUNCHERS[self._driver]
        version = SDK_VERSION if self._driver == "sdk" else CLI_VERSION
        return Runtime(
            name=f"openhands-{self._driver}-{version}",
            packages=_PACKAGES[self._driver],
            dependencies=False,
            python="3.12",
            files={f"{name}.py": (_HERE / "inside" / f"{name}.py").read_text() for name in ("harness_path", launcher)},
            warm=f"import {launcher}\n{launcher}.load({list(_TOOLS)})",
        )

    def files(self, context: HarnessContext) -> Mapping[str, bytes]:
        parameters: Mapping[str, Any] = {} if self._terminal == "auto" else {"terminal_type": self._terminal}
        settings = {
            "task": context.instruction,
            "workdir": context.workdir,
            "turn_limit": context.turn_limit,
            "llm": {
                "model": f"openai/{context.model}",
                "base_url": f"{context.base_url}/v1",
                "api_key": context.api_key,
                "timeout": int(context.seconds),  # its own would end, and ask again for, a reply of five minutes
            },
            "condenser": self._condenser,
            "tools": {tool: parameters if tool == "terminal" else {} for tool in self._tools},
        }
        return {
            f"{context.home}/openhands.json": json.dumps(settings).encode(),
            f"{context.home}/inputrc": _LINE_EDITOR,
        }

    def command(self, context: HarnessContext) -> Sequence[str]:
        launcher = _LAUNCHERS[self._driver]
        return [context.python, "-S", "-E", f"{context.runtime}/{launcher}.py", f"{context.home}/openhands.json"]

    def environment(self, context: HarnessContext) -> Mapping[str, str]:
        return {
            "INPUTRC": f"{context.home}/inputrc",
            "DO_NOT_TRACK": "1",
        }

    def ending(self, exit_code: int | None, output: str) -> Ending:
        return _ENDINGS.get(exit_code, "failed") if exit_code is not None else "failed"


def _one_of(option: str, given: str, known: Sequence[str]) -> None:
    if given not in known:
        raise HarnessError(f"harness.options.{option}={given}: openhands has {', '.join(known)} here")

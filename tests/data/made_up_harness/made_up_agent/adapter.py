"""The made-up agent, run headless over chat completions.

It is told everything by a JSON file, and says by its exit code how it ended.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from harness_adapters.adapter import Ending, HarnessAdapter, HarnessContext, HarnessError, Runtime, ShellTool

VERSION = "0.3"
_AGENT = Path(__file__).parent / "agent.py"
_ENDINGS: Mapping[int, Ending] = {0: "finished", 4: "turn_limit", 5: "context_overflow"}
"""By the exit codes of ``agent.py``; whatever else it says, it failed."""


class MadeUp(HarnessAdapter):
    """Options: ``shown`` (characters of a command's output that its model sees)."""

    name: ClassVar[str] = "made_up"
    end_status: ClassVar[int] = 401
    shell: ClassVar[ShellTool] = ShellTool("run", "cmd", done="Done.")

    def __init__(self, *, shown: int = 10_000) -> None:
        if shown < 1:
            raise HarnessError(f"harness.options.shown={shown}: made_up shows its model at least one character")
        self._shown = shown

    @property
    def runtime(self) -> Runtime:
        return Runtime(name=f"made-up-{VERSION}", python="3.11", files={"agent.py": _AGENT.read_text()})

    def files(self, context: HarnessContext) -> Mapping[str, bytes]:
        settings = {
            "url": f"{context.base_url}/v1",
            "key": context.api_key,
            "model": context.model,
            "task": context.instruction,
            "turns": context.turn_limit,
            "shown": self._shown,
        }
        return {f"{context.home}/settings.json": json.dumps(settings).encode()}

    def command(self, context: HarnessContext) -> Sequence[str]:
        # -S -E: the repository's packages and environment are not the agent's.
        return [context.python, "-S", "-E", f"{context.runtime}/agent.py", f"{context.home}/settings.json"]

    def environment(self, context: HarnessContext) -> Mapping[str, str]:
        return {"MADE_UP_TELEMETRY": "off"}

    def ending(self, exit_code: int | None, output: str) -> Ending:
        return "failed" if exit_code is None else _ENDINGS.get(exit_code, "failed")

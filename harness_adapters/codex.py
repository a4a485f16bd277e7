"""Codex: the released package, run headless (``codex exec``), over the Responses protocol.

It is told its model and the model's place by ``config.toml``, and the task by standard input. Its own sandbox is off
(it is in one), and so are web search, updates and analytics.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import ClassVar

from harness_adapters.adapter import Ending, HarnessAdapter, HarnessContext, Runtime, ShellTool
from harness_adapters.json_lines import objects

VERSION = "0.171.0"
_KEY = "LEGO_MODEL_KEY"
_PROGRAM = "node/node_modules/@openai/codex-linux-*/vendor/*/bin/codex"
"""A static program, of which npm installs this machine's. The package's own launcher, which needs node, does no more
than to start it; and node itself starts only where its libraries are, which a task's image may lack."""


class Codex(HarnessAdapter):
    """Options: ``context_tokens`` (at what length it compacts), ``subagents`` (offer them) and ``instructions`` (a text
    in the place of its own system prompt)."""

    name: ClassVar[str] = "codex"
    end_status: ClassVar[int] = 400
    memory_mb: ClassVar[int] = 512
    processes: ClassVar[int] = 64
    shell: ClassVar[ShellTool] = ShellTool("exec_command", "cmd")

    def __init__(
        self,
        *,
        context_tokens: int = 131072,
        subagents: bool = False,
        instructions: str | None = None,
        version: str = VERSION,
    ) -> None:
        self._context_tokens, self._subagents, self._version = context_tokens, subagents, version
        self._instructions = instructions

    @property
    def runtime(self) -> Runtime:
        package = f"@openai/codex@{self._version}"
        return Runtime(name=f"codex-{self._version}", npm=(package,), python=None)

    def files(self, context: HarnessContext) -> Mapping[str, bytes]:
        text = json.dumps  # a JSON string is a basic string of TOML
        instructions = f"{context.home}/instructions.md"
        config = f"""\
model = {text(context.model)}
model_provider = "lego"
model_context_window = {self._context_tokens}
web_search = "disabled"
check_for_update_on_startup = false
{f"model_instructions_file = {text(instructions)}" if self._instructions is not None else ""}
[analytics]
enabled = false
[model_providers.lego]
name = "lego"
base_url = {text(context.base_url + "/v1")}
env_key = "{_KEY}"
wire_api = "responses"
stream_idle_timeout_ms = 3600000
"""
        files = {f"{context.home}/config.toml": config, f"{context.home}/task.txt": context.instruction}
        if self._instructions is not None:
            files[instructions] = self._instructions
        return {path: content.encode() for path, content in files.items()}

    def command(self, context: HarnessContext) -> Sequence[str]:
        flags = [
            *("exec", "--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check", "--json"),
            *("--disable", "goals"),
            *(() if self._subagents else ("--disable", "multi_agent")),
            "-",
        ]
        program = f"{shlex.quote(context.runtime)}/{_PROGRAM}"  # the shell finds which
        return ["sh", "-c", f"exec {program} {shlex.join(flags)} <{shlex.quote(context.home)}/task.txt"]

    def environment(self, context: HarnessContext) -> Mapping[str, str]:
        return {
            "CODEX_HOME": context.home,
            "CODEX_MANAGED_BY_NPM": "1",  # as its launcher says
            "CODEX_DISABLE_UPDATE_CHECK": "1",
            _KEY: context.api_key,
        }

    def ending(self, exit_code: int | None, output: str) -> Ending:
        if exit_code == 0 and objects(output, "turn.completed"):
            return "finished"
        failures = " ".join(json.dumps(line) for line in objects(output, "turn.failed"))
        return "context_overflow" if "context window" in failures else "failed"

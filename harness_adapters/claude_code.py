"""Claude Code: the released package, run headless (``claude -p``), over the Messages protocol.

All that it is told stands in its environment and on its command line; the task comes by standard input, which has no
limit. Updates, telemetry, error reports and everything else that would call anywhere but its model are off.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import ClassVar

from harness_adapters.adapter import Ending, HarnessAdapter, HarnessContext, Runtime, ShellTool
from harness_adapters.json_lines import last_line

VERSION = "2.1.332"
_ENDINGS: Mapping[str, Ending] = {"success": "finished", "error_max_turns": "turn_limit"}
"""By the ``subtype`` of the last line."""
_TOO_LONG = "prompt is too long"
_SIZES = ("HAIKU", "SONNET", "OPUS")
_MODELS = ("ANTHROPIC_MODEL", *(f"ANTHROPIC_DEFAULT_{size}_MODEL" for size in _SIZES), "CLAUDE_CODE_SUBAGENT_MODEL")
_OFF = (
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC",
    "CLAUDE_CODE_DISABLE_EXPERIMENTAL_BETAS",
    "CLAUDE_CODE_DISABLE_THINKING",
    "DISABLE_AUTOUPDATER",
    "DISABLE_ERROR_REPORTING",
    "DISABLE_PROMPT_CACHING",
    "DISABLE_TELEMETRY",
)


class ClaudeCode(HarnessAdapter):
    """Options: ``tools`` (names, comma between; None: all), ``bare`` (no skills, hooks or project notes: a tenth of the
    prompt), ``context_tokens`` (at what length it compacts) and ``output_tokens`` (of one reply)."""

    name: ClassVar[str] = "claude_code"
    end_status: ClassVar[int] = 403
    memory_mb: ClassVar[int] = 1024
    processes: ClassVar[int] = 64
    shell: ClassVar[ShellTool] = ShellTool("Bash")

    def __init__(
        self,
        *,
        tools: str | None = None,
        bare: bool = False,
        context_tokens: int = 131072,
        output_tokens: int = 8192,
        version: str = VERSION,
    ) -> None:
        self._tools, self._bare, self._version = tools, bare, version
        self._context_tokens, self._output_tokens = context_tokens, output_tokens

    @property
    def runtime(self) -> Runtime:
        package = f"@anthropic-ai/claude-code@{self._version}"
        return Runtime(name=f"claude-code-{self._version}", npm=(package,), python=None)

    def files(self, context: HarnessContext) -> Mapping[str, bytes]:
        return {f"{context.home}/task.txt": context.instruction.encode()}

    def command(self, context: HarnessContext) -> Sequence[str]:
        claude = [
            *(f"{context.runtime}/node/node_modules/.bin/claude", "-p", "--dangerously-skip-permissions"),
            *("--max-turns", str(context.turn_limit), "--output-format", "stream-json", "--verbose"),
            *(("--bare",) if self._bare else ()),
            *(("--tools", self._tools) if self._tools else ()),
        ]
        return ["sh", "-c", f"exec {shlex.join(claude)} <{shlex.quote(context.home)}/task.txt"]

    def environment(self, context: HarnessContext) -> Mapping[str, str]:
        return {
            "IS_SANDBOX": "1",  # or it will not skip permissions for root
            "CLAUDE_CONFIG_DIR": f"{context.home}/config",
            "ANTHROPIC_BASE_URL": context.base_url,
            "ANTHROPIC_AUTH_TOKEN": context.api_key,
            **dict.fromkeys(_MODELS, context.model),
            **dict.fromkeys(_OFF, "1"),
            # Would put a line of its own, different in every trial, before the system prompt.
            "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",
            "ENABLE_TOOL_SEARCH": "false",
            "CLAUDE_CODE_MAX_OUTPUT_TOKENS": str(self._output_tokens),
            "CLAUDE_CODE_MAX_CONTEXT_TOKENS": str(self._context_tokens),
            "CLAUDE_CODE_MAX_RETRIES": "2",
        }

    def ending(self, exit_code: int | None, output: str) -> Ending:
        result = last_line(output, "result")
        if result is None:
            return "failed"
        subtype = str(result.get("subtype"))
        if subtype != "success" or not result.get("is_error"):
            return _ENDINGS.get(subtype, "failed")
        # An error of the model's server is a success to it, whose result is what the server said.
        return "context_overflow" if _TOO_LONG in str(result.get("result", "")).lower() else "failed"

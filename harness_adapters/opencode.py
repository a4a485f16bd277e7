"""OpenCode: the released package, run headless (``opencode run``), over any of the three protocols.

It is told its model by ``opencode.json``, and the task by standard input (as an argument it would gain quotes). Title
and summary agents, updates, and what it would download are off.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Literal, get_args

from harness_adapters.adapter import Ending, HarnessAdapter, HarnessContext, HarnessError, Runtime, ShellTool
from harness_adapters.json_lines import objects

VERSION = "1.18.33"
Dialect = Literal["chat", "messages", "responses"]
_PACKAGES: Mapping[str, str] = {
    "chat": "@ai-sdk/openai-compatible",
    "messages": "@ai-sdk/anthropic",
    "responses": "@ai-sdk/openai",
}
_OFF = [f"OPENCODE_DISABLE_{what}" for what in ("AUTOUPDATE", "DEFAULT_PLUGINS", "LSP_DOWNLOAD", "MODELS_FETCH")]


class OpenCode(HarnessAdapter):
    """Options: ``dialect`` (chat, messages, responses), ``context_tokens`` and ``output_tokens`` of the model,
    ``compact`` (whether it may), ``prompt`` (in the place of its system prompt) and ``tools`` (names, comma between;
    None: all)."""

    name: ClassVar[str] = "opencode"
    end_status: ClassVar[int] = 400
    memory_mb: ClassVar[int] = 3072
    processes: ClassVar[int] = 128
    shell: ClassVar[ShellTool] = ShellTool("bash", others={"description": "work on the issue"})

    def __init__(
        self,
        *,
        dialect: Dialect = "chat",
        context_tokens: int = 131072,
        output_tokens: int = 8192,
        compact: bool = False,
        prompt: str | None = None,
        tools: str | None = None,
        version: str = VERSION,
    ) -> None:
        if dialect not in _PACKAGES:
            raise HarnessError(f"harness.options.dialect={dialect}: opencode speaks {', '.join(get_args(Dialect))}")
        self._dialect, self._version, self._compact = dialect, version, compact
        self._limit = {"context": context_tokens, "output": output_tokens}
        self._prompt = prompt
        self._tools = None if tools is None else tools.split(",")

    @property
    def runtime(self) -> Runtime:
        package = f"opencode-ai@{self._version}"
        return Runtime(name=f"opencode-{self._version}", npm=(package,), python=None)

    def files(self, context: HarnessContext) -> Mapping[str, bytes]:
        build: dict[str, Any] = {}
        if self._prompt is not None:
            build["prompt"] = self._prompt
        if self._tools is not None:
            build["tools"] = {"*": False, **dict.fromkeys(self._tools, True)}
        config = {
            "model": f"lego/{context.model}",
            "small_model": f"lego/{context.model}",
            "share": "disabled",
            "autoupdate": False,
            "compaction": {"auto": self._compact, "prune": False},
            "agent": {"title": {"disable": True}, "summary": {"disable": True}, **({"build": build} if build else {})},
            "permission": {"*": "allow"},
            "provider": {
                "lego": {
                    "npm": _PACKAGES[self._dialect],
                    "name": "lego",
                    "options": {"baseURL": f"{context.base_url}/v1", "apiKey": context.api_key, "timeout": False},
                    "models": {context.model: {"name": context.model, "limit": self._limit, "tool_call": True}},
                }
            },
        }
        files = {"opencode.json": json.dumps(config, indent=1), "task.txt": context.instruction}
        return {f"{context.home}/{name}": text.encode() for name, text in files.items()}

    def command(self, context: HarnessContext) -> Sequence[str]:
        opencode = [f"{context.runtime}/node/node_modules/.bin/opencode", "run", "--format", "json", "--title", "trial"]
        return ["sh", "-c", f"exec {shlex.join(opencode)} <{shlex.quote(context.home)}/task.txt"]

    def environment(self, context: HarnessContext) -> Mapping[str, str]:
        return {
            "OPENCODE_CONFIG": f"{context.home}/opencode.json",
            **{f"XDG_{kind.upper()}_HOME": f"{context.home}/{kind}" for kind in ("config", "data", "state", "cache")},
            **dict.fromkeys(_OFF, "1"),
        }

    def ending(self, exit_code: int | None, output: str) -> Ending:
        errors = [str((line.get("error") or {}).get("name")) for line in objects(output, "error")]
        if errors:
            return "context_overflow" if errors[-1] == "ContextOverflowError" else "failed"
        return "finished" if exit_code == 0 else "failed"

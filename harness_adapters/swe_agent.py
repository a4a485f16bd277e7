"""SWE-agent 1.1, from a checkout that the user names: it has no release that pip could fetch.

It was made to be root in a container of its own. So the runtime has its files with two changes, and no others: what
stands under ``/root`` there stands in a folder that anyone may make, and its tools' installers, which would fetch
packages, do nothing. (They would serve the map of a long file, which is off.)
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from harness_adapters.adapter import Ending, HarnessAdapter, HarnessContext, HarnessError, Runtime, ShellTool, ToolUse

VERSION = "1.1.0"
PLACE = "/tmp/.swe_agent"
"""In the place of ``/root``."""
_HERE = Path(__file__).parent
_PACKAGES: Sequence[str] = json.loads((_HERE / "swe_agent_packages.json").read_text())
"""All that it declares, less what other commands of its than ``run`` import."""
_TAKEN = ("sweagent/**/*.py", "config/**/*.yaml", "tools/**/*")
_FETCHES = ("pip install", "apt", "npm", "conda")
_ENDINGS: Mapping[int, Ending] = {0: "finished", 43: "gave_up", 44: "turn_limit", 45: "context_overflow"}
"""By the exit codes of ``inside/swe_agent_run.py``."""


class SweAgent(HarnessAdapter):
    """Options: ``source`` (a folder: its checkout at v1.1.0) and ``config`` (a file in its ``config`` folder)."""

    name: ClassVar[str] = "swe_agent"
    end_status: ClassVar[int] = 401
    memory_mb: ClassVar[int] = 1024
    shell: ClassVar[ShellTool] = ShellTool(done=ToolUse("submit", {}))

    def __init__(self, *, source: str | None = None, config: str = "default.yaml") -> None:
        if source is None:
            raise HarnessError(
                "harness=swe_agent needs harness.options.source=FOLDER, a checkout of SWE-agent at "
                f"v{VERSION}: it has no release that pip could fetch"
            )
        self._source, self._config = Path(source).expanduser().resolve(), config
        for path in ("sweagent/__init__.py", f"config/{config}", "tools"):
            if not (self._source / path).exists():
                raise HarnessError(f"harness.options.source={source}: there is no {path}, so it is no checkout of it")

    @property
    def runtime(self) -> Runtime:
        launchers = {name: (_HERE / "inside" / name).read_text() for name in ("harness_path.py", "swe_agent_run.py")}
        return Runtime(
            name=f"swe-agent-{VERSION}",
            packages=_PACKAGES,
            dependencies=False,
            files={**launchers, **dict(self._files_of_source()), "source/trajectories/.keep": ""},
            warm="import swe_agent_run\nswe_agent_run.load()",
        )

    def _files_of_source(self) -> Iterator[tuple[str, str]]:
        for path in sorted({path for pattern in _TAKEN for path in self._source.glob(pattern) if path.is_file()}):
            if path.suffix == ".pyc":
                continue
            text = path.read_text().replace("/root", PLACE)
            if path.name == "install.sh" and any(word in text for word in _FETCHES):
                text = "true\n"
            yield f"source/{path.relative_to(self._source)}", text

    def files(self, context: HarnessContext) -> Mapping[str, bytes]:
        trial = {
            "problem_statement": {"type": "text", "text": context.instruction, "id": "trial"},
            "agent": {
                "model": {
                    "name": f"openai/{context.model}",
                    "api_base": f"{context.base_url}/v1",
                    "api_key": context.api_key,
                    "per_instance_cost_limit": 0,
                    "total_cost_limit": 0,
                    "per_instance_call_limit": context.turn_limit,
                    "max_input_tokens": 0,
                },
                "tools": {"registry_variables": {"USE_FILEMAP": "false"}},
                # The default one moves a mark of a provider's cache from message to message.
                "history_processors": [],
            },
            "env": {
                "deployment": {"type": "local"},
                "repo": {"type": "preexisting", "repo_name": context.workdir.strip("/")},
            },
        }
        return {
            f"{context.home}/trial.yaml": json.dumps(trial).encode(),  # which YAML reads as well
            f"{PLACE}/.bashrc": b"",
            f"{PLACE}/tools/.keep": b"",
        }

    def command(self, context: HarnessContext) -> Sequence[str]:
        launcher, source = f"{context.runtime}/swe_agent_run.py", f"{context.runtime}/source"
        configurations = ["--config", f"{source}/config/{self._config}", "--config", f"{context.home}/trial.yaml"]
        return [context.python, "-S", "-E", launcher, *configurations, "--output_dir", f"{context.home}/out"]

    def environment(self, context: HarnessContext) -> Mapping[str, str]:
        return {"SWE_AGENT_ENV_FILE": f"{PLACE}/.swe-agent-env", "SWE_AGENT_LOG_STREAM_LEVEL": "INFO"}

    def ending(self, exit_code: int | None, output: str) -> Ending:
        return _ENDINGS.get(exit_code, "failed") if exit_code is not None else "failed"

"""mini-swe-agent: the released package, run headless by its own command line.

How it is told things: its own configuration file (``mini_swe_agent.yaml`` beside this one, or another
one named by ``config``) and a second, small one for the trial. The task stands there and not on the
command line, which has a limit of 128 KiB an argument.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from harness_adapters.adapter import (
    Ending,
    HarnessAdapter,
    HarnessContext,
    HarnessError,
    Runtime,
    ShellTool,
    ToolUse,
)

VERSION = "2.4.6"
_HERE = Path(__file__).parent
_NEEDED = (
    "annotated-doc==0.0.7",
    "annotated-types==0.8.0",
    "jinja2==3.1.6",
    "markdown-it-py==4.3.0",
    "MarkupSafe==3.0.4",
    "mdurl==0.1.2",
    "platformdirs==4.14.8",
    "prompt_toolkit==3.0.53",
    "pydantic==2.14.4",
    "pydantic_core==2.50.5",
    "pygments==2.21.0",
    "python-dotenv==1.2.4",
    "PyYAML==6.0.4",
    "rich==15.0.0",
    "shellingham==1.5.4",
    "tenacity==9.2.1",
    "typer==0.29.2",
    "typing-inspection==0.4.5",
    "typing_extensions==4.16.0",
    "wcwidth==0.9.4",
)
"""All that mini imports when its model class is the thin one: 40 MB instead of 550. What it declares besides
(litellm, datasets, openai, textual) serves other model classes and commands."""
_CLASSES = {"thin": "mini_thin_model.ThinModel", "litellm": "litellm"}
_LAUNCHER = ("harness_path.py", "mini_launch.py", "mini_thin_model.py")
_ENDINGS: Mapping[int, Ending] = {0: "finished", 43: "gave_up", 44: "turn_limit", 45: "context_overflow"}
"""By the exit codes of ``inside/mini_launch.py``."""


class MiniSweAgent(HarnessAdapter):
    """Options: ``model_class`` (``thin`` or mini's own ``litellm``) and ``config`` (a configuration file of mini's)."""

    name: ClassVar[str] = "mini_swe_agent"
    end_status: ClassVar[int] = 401
    shell: ClassVar[ShellTool] = ShellTool(
        done=ToolUse("bash", {"command": "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"})
    )

    def __init__(self, *, model_class: str = "thin", config: str | None = None) -> None:
        if model_class not in _CLASSES:
            raise HarnessError(
                f"harness.options.model_class={model_class}: mini_swe_agent has {', '.join(_CLASSES)} here"
            )
        self._model_class = model_class
        path = Path(config) if config else _HERE / "mini_swe_agent.yaml"
        try:
            self._config = path.read_bytes()
        except OSError as error:
            raise HarnessError(
                f"harness.options.config={path}: mini-swe-agent's configuration cannot be read: {error.strerror}"
            ) from error

    @property
    def runtime(self) -> Runtime:
        thin = self._model_class == "thin"
        model = "import mini_thin_model, http.client" if thin else "import minisweagent.models.litellm_model"
        return Runtime(
            name=f"mini-swe-agent-{VERSION}-{self._model_class}",
            packages=(f"mini-swe-agent=={VERSION}", *(_NEEDED if thin else ("litellm==1.110.2",))),
            dependencies=not thin,
            files={name: (_HERE / "inside" / name).read_text() for name in _LAUNCHER},
            warm=(
                "import mini_launch, harness_path, minisweagent.run.mini, minisweagent.agents.interactive, "
                f"minisweagent.environments.local, rich.traceback\n{model}"
            ),
        )

    def files(self, context: HarnessContext) -> Mapping[str, bytes]:
        text = _yaml_string
        trial = f"""\
run:
  task: {text(context.instruction)}
agent:
  step_limit: {context.turn_limit}
model:
  model_class: {text(_CLASSES[self._model_class])}
  model_name: {text("openai/" + context.model)}
  model_kwargs:
    api_base: {text(context.base_url + "/v1")}
    api_key: {text(context.api_key)}
    drop_params: true
"""
        return {f"{context.home}/mini.yaml": self._config, f"{context.home}/trial.yaml": trial.encode()}

    def command(self, context: HarnessContext) -> Sequence[str]:
        home = context.home
        configurations = ["-c", f"{home}/mini.yaml", "-c", f"{home}/trial.yaml"]
        mini = ["-y", "--exit-immediately", "-l", "0", *configurations, "-o", f"{home}/traj.json"]
        return [context.python, "-S", "-E", f"{context.runtime}/mini_launch.py", *mini]

    def environment(self, context: HarnessContext) -> Mapping[str, str]:
        return {
            "MSWEA_CONFIGURED": "true",
            "MSWEA_SILENT_STARTUP": "1",
            "MSWEA_COST_TRACKING": "ignore_errors",
            "MSWEA_GLOBAL_CONFIG_DIR": f"{context.home}/config",
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
        }

    def ending(self, exit_code: int | None, output: str) -> Ending:
        return _ENDINGS.get(exit_code, "failed") if exit_code is not None else "failed"


def _yaml_string(text: str) -> str:
    """A double-quoted YAML scalar of printable ASCII: any text comes back as it was."""
    return '"' + "".join(_escaped(ord(character)) for character in text) + '"'


def _escaped(code: int) -> str:
    if 0x20 <= code < 0x7F and code not in (0x22, 0x5C):
        return chr(code)
    return f"\\x{code:02X}" if code <= 0xFF else f"\\u{code:04X}" if code <= 0xFFFF else f"\\U{code:08X}"

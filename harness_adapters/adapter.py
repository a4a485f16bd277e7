"""What a harness is, and no more.

An adapter *declares* how a released, unmodified agent is run without a person: what has to be installed (``runtime``),
which files configure it, which command starts it in which environment, on which HTTP status it stops at once
(``end_status``), how its model runs a command (``shell``), what memory and processes it needs itself, and how it says
that it ended. It is asked anew for every trial, and answers with plain data.

What it does not know, because somebody else does:

- the proxy: it knows one base URL, under which the agent finds its protocol, whichever that is;
- the sandbox: it knows a working folder, a home and where its runtime is mounted. Users, mounts, the network and
  deadlines are not its business, nor is what they or a lack of memory did to the agent;
- the trial: how often it is run, what its ending is worth, whether it is run again;
- tokens, rewards and training.

So it keeps nothing between its calls. It may raise whatever Python raises: that ends the trial as ``harness_failed``,
with the error in its record. ``docs/09-add-a-harness.md`` writes one step by step.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

Ending = Literal["finished", "gave_up", "turn_limit", "context_overflow", "failed"]
"""How the harness itself says it ended: ``finished`` with a submission, ``gave_up`` without one, ``failed`` for a
reason of its own. Deadlines and memory are seen by the sandbox, not here."""


class HarnessError(ValueError):
    """A harness that cannot be used as it is asked for; one line that says what there is."""


@dataclass(frozen=True)
class Runtime:
    """What has to be installed, once, for a harness to run: the content of its address in the cache."""

    name: str
    packages: Sequence[str] = ()
    """Requirements with exact versions, as pip takes them."""
    dependencies: bool = True
    """False: ``packages`` is the whole closure, and nothing else is installed."""
    python: str | None = "3.11"
    """The oldest Python that it runs on, and the one that is preferred; None: it needs none."""
    npm: Sequence[str] = ()
    """Packages with exact versions, as npm takes them; they stand under ``node/node_modules``."""
    node: int | None = None
    """The oldest node that they run on: this machine's comes along as ``node/bin/node``. None: they bring programs."""
    files: Mapping[str, str] = field(default_factory=dict)
    """Extra text files, by path relative to the runtime."""
    warm: str = ""
    """Python statements that are run once after installation, so that the bytecode of what they import is
    compiled. ``sys.path`` holds the packages and the runtime's own files."""


@dataclass(frozen=True)
class HarnessContext:
    """All that an adapter may know of a trial."""

    base_url: str
    """The trial's session, without a trailing slash; OpenAI-style clients add ``/v1``."""
    api_key: str
    model: str
    instruction: str
    workdir: str
    home: str
    """A writable folder of the harness's own, outside the repository."""
    runtime: str
    """Where the runtime is mounted, read-only."""
    python: str
    """The interpreter that runs the runtime, as seen inside."""
    turn_limit: int
    seconds: float


@dataclass(frozen=True)
class ToolUse:
    """One call of a tool that a harness offers to its model."""

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class ShellTool:
    """How this harness's model runs a command, and how it says that it is done.

    For models that are made up: scripts, and the tiny policy, whose actions are shell commands. A policy that is
    trained in earnest is told by the harness itself what tools there are.
    """

    name: str = "bash"
    argument: str = "command"
    """Which argument holds the command."""
    others: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that the tool demands besides."""
    done: ToolUse | str = "Done."
    """What ends the work: a call, or the text of a reply without one."""

    def run(self, command: str) -> ToolUse:
        return ToolUse(self.name, {self.argument: command, **self.others})


class HarnessAdapter(ABC):
    """One harness. Subclasses are small and hold no state of a trial."""

    name: ClassVar[str]
    end_status: ClassVar[int]
    """The HTTP status on which this harness stops at once instead of retrying."""
    shell: ClassVar[ShellTool] = ShellTool()
    memory_mb: ClassVar[int] = 0
    """What the harness itself needs, beside the memory that a recipe gives to the work on a task."""
    processes: ClassVar[int] = 0
    """Likewise of processes and threads."""

    @property
    @abstractmethod
    def runtime(self) -> Runtime: ...

    def files(self, context: HarnessContext) -> Mapping[str, bytes]:
        """Configuration files to write before the start, by absolute path inside."""
        return {}

    @abstractmethod
    def command(self, context: HarnessContext) -> Sequence[str]: ...

    def environment(self, context: HarnessContext) -> Mapping[str, str]:
        return {}

    @abstractmethod
    def ending(self, exit_code: int | None, output: str) -> Ending:
        """How the harness says that it ended, from its exit code and its output (whose end may be cut)."""
        ...

"""What a harness is, and no more.

An adapter *declares* how a released, unmodified agent is run: which packages make up its runtime,
which files configure it, which command starts it, which HTTP status ends it, and how its ending is
read. It knows a base URL, never the proxy behind it; a working folder, never the sandbox around it;
and nothing of tokens, rewards or training.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Literal

Ending = Literal["finished", "gave_up", "turn_limit", "context_overflow", "failed"]
"""How the harness itself says it ended: ``finished`` with a submission, ``gave_up`` without one, ``failed`` for a
reason of its own. Deadlines and memory are seen by the sandbox, not here."""


class HarnessError(ValueError):
    """A harness that cannot be used as it is asked for; one line that says what there is."""


@dataclass(frozen=True)
class Runtime:
    """What has to be installed, once, for a harness to run: the content of its address in the cache."""

    name: str
    packages: Sequence[str]
    """Requirements with exact versions, as pip takes them."""
    dependencies: bool = True
    """False: ``packages`` is the whole closure, and nothing else is installed."""
    python: str = "3.11"
    """The oldest Python that it runs on, and the one that is preferred."""
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


class HarnessAdapter(ABC):
    """One harness. Subclasses are small and hold no state of a trial."""

    name: ClassVar[str]
    end_status: ClassVar[int]
    """The HTTP status on which this harness stops at once instead of retrying."""

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

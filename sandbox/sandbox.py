"""What a sandbox is: the protocol that every backend (local, docker, later a pod) keeps.

A sandbox is one fresh file tree with its own processes and no network. It knows no harness and no
model: it is started from an image, runs commands with a deadline that really ends them, takes and
gives files over streams, and is closed. Its only way out is its *link*: a unix socket of the
trainer's that appears inside as ``http://127.0.0.1:<port>``.

Errors are few and mean what the ledger needs to know (see ``lego_verl.trial.outcome``).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from sandbox.scratch import Scratch


class SandboxError(Exception):
    """The sandbox, not what ran in it, failed. Never a reward."""


class SandboxUnavailable(SandboxError):
    """This machine cannot run this kind of sandbox. The message says what is missing and what to do."""


class ImageMissing(SandboxError):
    """What the sandbox should start from is not there, or this backend cannot make it."""


class SandboxLost(SandboxError):
    """It was running and is no longer there: killed from outside, or its daemon went away."""


@dataclass(frozen=True)
class Image:
    """What a sandbox starts from.

    ``folder`` is a Harbor ``environment/`` folder (a Dockerfile and what it copies); ``reference``
    names a container image. A backend takes what it can use; ``workdir`` is where the repository
    stands inside.
    """

    folder: Path | None = None
    reference: str | None = None
    workdir: str = "/testbed"


@dataclass(frozen=True)
class Mount:
    """A folder of the host that is seen, read-only, inside."""

    source: Path
    target: str


@dataclass(frozen=True)
class Limits:
    """What one sandbox may use. Sizes in MiB."""

    memory_mb: int = 2048
    processes: int = 256
    disk_mb: int = 512
    output_bytes: int = 4 << 20
    """Bytes of output kept of one exec; the rest is read and dropped, and counted."""


@dataclass(frozen=True)
class SandboxSpec:
    run: str
    trial: str
    image: Image
    mounts: Sequence[Mount] = ()
    link: Path | None = None
    """The unix socket on the host that the sandbox may reach; None: nothing can be reached."""
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True)
class ExecResult:
    """How a command ended. ``exit_code`` is None when it did not end by itself.

    As in a shell: 127 when there is no such command (or ``cwd``), 126 when it cannot be run, 128 + n
    when signal n ended it.
    """

    exit_code: int | None
    output: bytes
    """stdout and stderr together, at most ``Limits.output_bytes``."""
    dropped_bytes: int
    timed_out: bool
    out_of_memory: bool
    seconds: float


class Sandbox(Protocol):
    """A running sandbox. Every method raises ``SandboxLost`` once it is gone."""

    base_url: str | None
    """The link's address as seen from inside, without a trailing slash; None without a link."""
    spec: SandboxSpec

    async def exec(
        self,
        command: Sequence[str],
        *,
        deadline: float,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> ExecResult:
        """Run a command as the unprivileged user; end its whole process tree after ``deadline`` seconds.

        ``cwd`` defaults to the image's workdir. ``env`` is all of the environment but PATH, HOME
        and LANG, which have defaults. What the command leaves running is ended when it returns.
        """
        ...

    async def put(self, files: Mapping[str, bytes], *, executable: bool = False) -> None:
        """Write files at absolute paths; folders are made."""
        ...

    async def get(self, path: str, *, limit: int = 64 << 20) -> bytes:
        """Read a file. ``FileNotFoundError``; ``SandboxError`` when it is over ``limit`` bytes."""
        ...

    async def disk_full(self) -> bool:
        """Whether the writable tree has (nearly) no room left."""
        ...

    async def close(self) -> None:
        """End everything and leave nothing behind. Safe to call twice."""
        ...


Report = Callable[[int, int], None]
"""Is told how many are done, and of how many."""


class Backend(Protocol):
    """Where sandboxes come from."""

    name: str
    shares_usr: bool
    """Whether a sandbox sees this machine's /usr, so that an interpreter there can run a harness."""
    scratch: Scratch
    """Where this backend keeps a trial's link on the host."""

    async def check(self) -> None:
        """Raise ``SandboxUnavailable`` with one clear line when this machine cannot run it."""
        ...

    async def fetch(self, images: Sequence[Image], report: Report | None = None) -> Mapping[Image, str]:
        """Make images ready before they are needed; return those that cannot be had, and why.

        Raises:
            SandboxError: when the machine or the daemon, not an image, is at fault.
        """
        ...

    async def start(self, spec: SandboxSpec) -> Sandbox:
        """``ImageMissing`` when the image cannot be had; else ``SandboxError``."""
        ...

    async def reap(self, run: str | None = None) -> int:
        """Remove what dead runs (or one named run) left behind; return how many things that was."""
        ...

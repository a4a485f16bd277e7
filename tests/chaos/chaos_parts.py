"""The parts of a chaos run that are watched or turned against it: the policy, the backend, the tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from chaos_cases import Fault, Kind
from docker_daemon import DockerDaemon
from trial_helpers import make_task, policy

from lego_verl.capture.call import Sample
from lego_verl.capture.message import Request
from lego_verl.policies.policy import Sampling
from lego_verl.tasks.task import Task
from sandbox.docker import DockerBackend
from sandbox.docker_host import DaemonGone
from sandbox.sandbox import Image, Report, Sandbox, SandboxSpec

Hook = Callable[[str], Awaitable[None]]
"""Is given a trial's name (of one attempt) when it is where something is to happen to it."""


class Acting:
    """A scripted policy that lets a fault happen while its first call waits for the answer."""

    model = "scripted"

    def __init__(self, replies: Sequence[Mapping[str, Any]], hook: Hook | None) -> None:
        self._inner, self._hook = policy(*replies), hook

    async def answer(
        self, request: Request, *, session: str, prompt_ids: Sequence[int], max_tokens: int, sampling: Sampling
    ) -> Sample:
        hook, self._hook = self._hook, None
        if hook is not None:
            await hook(session)
        return await self._inner.answer(
            request, session=session, prompt_ids=prompt_ids, max_tokens=max_tokens, sampling=sampling
        )


@dataclass
class Staged:
    """A backend that says what it starts, keeps it at hand, and calls the hook of a trial whose sandbox has started."""

    backend: Any
    sandboxes: dict[str, Any] = field(default_factory=dict)
    hooks: dict[str, Hook] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return str(self.backend.name)

    @property
    def shares_usr(self) -> bool:
        return bool(self.backend.shares_usr)

    @property
    def scratch(self) -> Any:
        return self.backend.scratch

    async def check(self) -> None:
        await self.backend.check()

    async def fetch(self, images: Sequence[Image], report: Report | None = None) -> Mapping[Image, str]:
        found: Mapping[Image, str] = await self.backend.fetch(images, report)
        return found

    async def start(self, spec: SandboxSpec) -> Sandbox:
        starting.set(spec.trial)
        sandbox: Sandbox = await self.backend.start(spec)
        self.sandboxes[spec.trial] = sandbox
        hook = self.hooks.pop(spec.trial, None)
        if hook is not None:
            await hook(spec.trial)
        return sandbox

    async def reap(self, run: str | None = None) -> int:
        return int(await self.backend.reap(run))


starting: ContextVar[str] = ContextVar("starting", default="")
"""The trial for which a sandbox is being started."""


def tell_refusals(backend: DockerBackend, refused: Callable[[str], None]) -> None:
    """Tell ``refused`` of every trial for which a daemon was asked for something in vain."""
    (host,) = backend.hosts
    call = host.call

    async def told(what: Callable[[Any], Any]) -> Any:
        try:
            return await call(what)
        except DaemonGone:
            refused(starting.get())
            raise

    host.call = told  # type: ignore[method-assign]


class DaemonFault:
    """A daemon that goes away when so many trials are where it is to hit them, and comes back."""

    def __init__(self, daemon: DockerDaemon, count: int, starts_without: str) -> None:
        """``starts_without``: the trial that starts while the daemon is away."""
        self._daemon, self._missing, self._starts_without = daemon, count, starts_without
        self._all_here, self._down, self._refused = asyncio.Event(), asyncio.Event(), asyncio.Event()

    def _arrive(self) -> None:
        self._missing -= 1
        if self._missing == 0:
            self._all_here.set()

    async def calling(self, trial: str) -> None:
        """Hit while it waits for the policy."""
        self._arrive()
        await asyncio.Event().wait()  # until the trial ends, which cancels this

    async def grading(self, trial: str) -> None:
        """Hit while it is being graded."""
        self._arrive()
        await self._down.wait()

    async def starting(self, trial: str) -> None:
        """Starts while the daemon is away."""
        await self._down.wait()

    def refused(self, trial: str) -> None:
        """To be told of what is asked in vain."""
        if trial == self._starts_without:
            self._refused.set()

    async def strike(self) -> None:
        await self._all_here.wait()
        await asyncio.to_thread(self._daemon.kill)
        self._down.set()
        await self._refused.wait()
        await asyncio.to_thread(self._daemon.start)

    @property
    def hooks(self) -> dict[Fault, Hook]:
        return {"daemon": self.calling, "daemon_grading": self.grading, "daemon_down": self.starting}


def make_tasks(folder: Path, *, missing: str) -> dict[Kind, Task]:
    """The tasks of a run. ``missing``: a Dockerfile that cannot be built where it runs."""
    return {
        "mend": make_task(folder / "mend"),
        "hung_grader": make_task(folder / "hung", test=b"echo half; sleep 3600\n"),
        "no_image": make_task(folder / "missing", dockerfile=missing),
    }

"""What the trials of one worker share: where they run, what runs in them, and how many at once."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

from harness_adapters.adapter import HarnessAdapter
from harness_adapters.runtime import MOUNTED_AT, BuiltRuntime
from lego_verl.deadline import deadline
from lego_verl.proxy.server import ProxyServer
from lego_verl.trial.limits import TrialLimits
from lego_verl.trial.retries import RetryPolicy
from sandbox.patch import Baseline, record_baseline
from sandbox.sandbox import Backend, Image, Limits, Mount, Report, Sandbox, SandboxError, SandboxSpec
from sandbox.scratch import Scratch

_BASELINES = 64


class GatedBackend:
    """A backend that starts only so many sandboxes at once, each within ``seconds``; those that run are not counted."""

    def __init__(self, backend: Backend, starts: asyncio.Semaphore, seconds: float) -> None:
        self.name, self.scratch, self.shares_usr = backend.name, backend.scratch, backend.shares_usr
        self._backend, self._starts, self._seconds = backend, starts, seconds

    async def check(self) -> None:
        await self._backend.check()

    async def fetch(self, images: Sequence[Image], report: Report | None = None) -> Mapping[Image, str]:
        return await self._backend.fetch(images, report)

    async def start(self, spec: SandboxSpec) -> Sandbox:
        what = f"the sandbox of trial {spec.trial} to start"
        async with self._starts, deadline(self._seconds, what, SandboxError):
            return await self._backend.start(spec)

    async def reap(self, run: str | None = None) -> int:
        return await self._backend.reap(run)


class Baselines:
    """The base tree of every task, recorded in its first trial's sandbox and used by all that follow."""

    def __init__(self, capacity: int = _BASELINES) -> None:
        self._capacity = capacity
        self._known: OrderedDict[str, Baseline] = OrderedDict()
        self._recording: dict[str, asyncio.Lock] = {}

    async def of(self, digest: str, sandbox: Sandbox) -> Baseline:
        """The baseline of the task with this digest; ``sandbox`` is untouched, and used when it is not known yet."""
        async with self._recording.setdefault(digest, asyncio.Lock()):
            baseline = self._known.get(digest)
            if baseline is None:
                baseline = self._known[digest] = await record_baseline(sandbox)
                while len(self._known) > self._capacity:
                    self._recording.pop(self._known.popitem(last=False)[0], None)
            self._known.move_to_end(digest)
            return baseline


@dataclass(frozen=True)
class Bench:
    """Made once, used by every trial of a worker."""

    run: str
    backend: Backend
    scratch: Scratch
    """Where the links' sockets stand."""
    server: ProxyServer
    """Started."""
    adapter: HarnessAdapter
    runtime: BuiltRuntime | None
    """None for a harness that the image brings along."""
    slots: asyncio.Semaphore
    """Trials that run at once."""
    starts: asyncio.Semaphore
    """Sandboxes that start at once."""
    start_seconds: float = 300.0
    """Wall time in which a sandbox must start, its image included where that was not fetched before."""
    sandbox: Limits = field(default_factory=Limits)
    regrading: RetryPolicy = field(default_factory=RetryPolicy)
    """How often a patch is graded again when there was no verdict."""
    baselines: Baselines = field(default_factory=Baselines)
    controlled: frozenset[str] = frozenset()
    """Digests of tasks whose rewards are held against turned tests (see ``sandbox.control``)."""

    def attempt_seconds(self, limits: TrialLimits) -> float:
        """Wall time in which an attempt of a trial ends, whatever happens to it."""
        return limits.attempt_seconds(self.start_seconds, gradings=1 + self.regrading.retries)

    @property
    def gated(self) -> Backend:
        return GatedBackend(self.backend, self.starts, self.start_seconds)

    @property
    def mounts(self) -> Sequence[Mount]:
        return [] if self.runtime is None else [Mount(self.runtime.folder, MOUNTED_AT)]

    @property
    def agent_limits(self) -> Limits:
        """Of the sandbox in which the harness runs: what the recipe gives, and what the harness itself needs."""
        return replace(
            self.sandbox,
            memory_mb=self.sandbox.memory_mb + self.adapter.memory_mb,
            processes=self.sandbox.processes + self.adapter.processes,
        )

    @property
    def python(self) -> str:
        return "python3" if self.runtime is None else self.runtime.python


@asynccontextmanager
async def open_bench(
    run: str,
    backend: Backend,
    adapter: HarnessAdapter,
    runtime: BuiltRuntime | None,
    *,
    sandbox: Limits,
    slots: int = 1,
    server: ProxyServer | None = None,
) -> AsyncIterator[Bench]:
    """A bench with a proxy of its own, for trials outside of a training run.

    When it is closed, so is the proxy, and nothing of its trials is left.

    Args:
        run: a name that nothing else on this machine runs under.
        slots: trials at once, and sandboxes that start at once.
        server: the proxy, not yet started, where it is not to be a plain one.
    """
    server = server or ProxyServer()
    await server.start()
    try:
        yield Bench(
            run=run,
            backend=backend,
            scratch=backend.scratch,
            server=server,
            adapter=adapter,
            runtime=runtime,
            slots=asyncio.Semaphore(slots),
            starts=asyncio.Semaphore(slots),
            sandbox=sandbox,
        )
    finally:
        await server.stop()
        await backend.reap(run)

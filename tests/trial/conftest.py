"""Real parts: the local sandbox, the proxy on its sockets, mini-swe-agent from the cache."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from trial_helpers import ScriptHarness, Watched, as_backend, make_task, nothing_left

from harness_adapters.mini_swe_agent import MiniSweAgent
from harness_adapters.runtime import build_runtime, cache_folder
from lego_verl.proxy.server import ProxyServer
from lego_verl.tasks.task import Task
from lego_verl.trial.bench import Bench
from lego_verl.trial.retries import RetryPolicy
from sandbox.local import LocalBackend
from sandbox.sandbox import Limits


@pytest.fixture
def tmp_path() -> Iterator[Path]:
    """A temporary folder that other users may enter: tests are mounted from it. (pytest's own is private.)"""
    folder = Path(tempfile.mkdtemp(prefix="lego-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return make_task(tmp_path / "mend")


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    """A bench with a harness that does nothing; after the test nothing of its trials may be left."""
    backend = Watched(LocalBackend())
    server = ProxyServer()
    await server.start()
    made = Bench(
        run=f"test-{uuid.uuid4().hex[:8]}",
        backend=as_backend(backend),
        scratch=backend.scratch,
        server=server,
        adapter=ScriptHarness("true"),
        runtime=None,
        slots=asyncio.Semaphore(8),
        starts=asyncio.Semaphore(2),
        sandbox=Limits(memory_mb=256, processes=64, disk_mb=32, output_bytes=1 << 16),
        regrading=RetryPolicy(retries=1, first_delay=0.01),
    )
    yield made
    try:
        assert nothing_left(made) == []
    finally:
        await server.stop()
        await backend.reap(made.run)


@pytest.fixture
def script(bench: Bench) -> Callable[[str], Bench]:
    """The bench with a script for its harness."""
    return lambda text: replace(bench, adapter=ScriptHarness(text))


@pytest.fixture
async def mini(bench: Bench) -> Bench:
    adapter = MiniSweAgent()
    return replace(bench, adapter=adapter, runtime=await build_runtime(adapter.runtime, cache_folder()))

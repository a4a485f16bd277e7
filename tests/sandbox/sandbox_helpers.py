"""What the tests of sandboxes share, beside the fixtures."""

from __future__ import annotations

import asyncio
import gc
import os
import subprocess
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

from sandbox.docker import DockerBackend
from sandbox.docker_container import OWNER
from sandbox.local import LocalBackend, LocalSandbox
from sandbox.orphans import identity, sandbox_processes
from sandbox.sandbox import ExecResult

Start = Callable[..., Awaitable[LocalSandbox]]
PATIENCE = 120.0
"""Seconds after which something that has to happen is taken not to: a machine under load is slow, and not wrong."""


def git(folder: Path, *arguments: str, stdin: bytes = b"") -> str:
    """git of the host, with an identity and nobody's configuration."""
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("GIT_")},
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{who}_{what}": "someone@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=environment, input=stdin, capture_output=True, check=True
    )
    return done.stdout.decode(errors="replace").strip()


async def output(sandbox: LocalSandbox, script: str, *, deadline: float = 30.0) -> str:
    """What a shell script prints inside, stripped."""
    done = await sandbox.exec(["bash", "-c", script], deadline=deadline)
    assert not done.timed_out
    return done.output.decode(errors="replace").strip()


async def busy(
    sandbox: LocalSandbox, script: str = "touch /tmp/runs; sleep 1000", deadline: float = 1000
) -> asyncio.Task[ExecResult]:
    """A command that runs there, and goes on; ``script`` makes /tmp/runs once it has begun."""
    running = asyncio.create_task(sandbox.exec(["bash", "-c", script], deadline=deadline))

    async def begun() -> bool:
        try:
            return await sandbox.get("/tmp/runs") == b""
        except FileNotFoundError:
            return False

    await until(begun, "the command runs")
    return running


async def until(happened: Callable[[], Awaitable[object]], what: str) -> None:
    """Wait until it has happened."""
    end = time.monotonic() + PATIENCE
    while not await happened():
        assert time.monotonic() < end, f"never came about: {what}"
        await asyncio.sleep(0.02)


async def remaining(backend: LocalBackend | DockerBackend) -> list[str]:
    """The sandboxes that this process has on a backend."""
    mine = identity(os.getpid())
    if isinstance(backend, LocalBackend):
        return [str(pid) for pid, starter, _ in sandbox_processes() if starter == mine]
    filters = {"label": f"{OWNER}={mine}"}
    return [each["Id"] for each in await backend.hosts[0].call(lambda api: api.containers(all=True, filters=filters))]


def descriptors(backend: LocalBackend | DockerBackend) -> int:
    """How many are open in this process, without the connections that the docker SDK keeps for its next call."""
    if isinstance(backend, DockerBackend) and backend.hosts[0]._client is not None:
        backend.hosts[0]._client.close()
    gc.collect()  # of tests before
    return len(os.listdir("/proc/self/fd"))

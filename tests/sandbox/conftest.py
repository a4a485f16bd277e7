"""Real sandboxes for the tests: bubblewrap, sockets and git, no stand-ins."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest
from sandbox_helpers import Start, git

from sandbox.local import LocalBackend, LocalSandbox
from sandbox.sandbox import Image, Limits, Mount, SandboxSpec


@pytest.fixture
def open_tmp() -> Iterator[Path]:
    """A temporary folder that other users may enter (pytest's own may not be)."""
    folder = Path(tempfile.mkdtemp(prefix="lego-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def backend(open_tmp: Path) -> LocalBackend:
    return LocalBackend(scratch=open_tmp / "scratch")


@pytest.fixture
async def start(backend: LocalBackend) -> AsyncIterator[Start]:
    """Start sandboxes; they are closed at the end of the test."""
    started: list[LocalSandbox] = []

    async def start(
        image: Image | None = None,
        *,
        trial: str = "trial",
        limits: Limits | None = None,
        link: Path | None = None,
        mounts: tuple[Mount, ...] = (),
    ) -> LocalSandbox:
        spec = SandboxSpec("test", trial, image or Image(), mounts=mounts, link=link, limits=limits or Limits())
        started.append(await backend.start(spec))
        return started[-1]

    yield start
    await asyncio.gather(*(sandbox.close() for sandbox in started))


@pytest.fixture
async def sandbox(start: Start) -> LocalSandbox:
    return await start()


@pytest.fixture
def environment(open_tmp: Path) -> Path:
    """A Harbor environment folder with a small git repository."""
    folder = open_tmp / "environment"
    repo = folder / "repo"
    (repo / "pkg").mkdir(parents=True)
    (repo / "calc.py").write_text("def add(a, b):\n    return a - b\n")
    (repo / "pkg" / "data.bin").write_bytes(bytes(range(256)))
    (repo / "run.sh").write_text("#!/bin/sh\necho run\n")
    (repo / "run.sh").chmod(0o755)
    (repo / "link").symlink_to("calc.py")
    (repo / ".gitignore").write_text("*.log\nbuild/\n")
    git(repo, "init", "-q", "-b", "main")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "base")
    (folder / "Dockerfile").write_text("FROM debian:12\nWORKDIR /testbed\nCOPY repo/ /testbed/\n")
    return folder

"""Real sandboxes for the tests: bubblewrap, docker, sockets and git, no stand-ins.

A test that asks for a ``backend``, or for what is made with it, runs on each backend that ``backends_of`` names.
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from every_backend import backends_of
from sandbox_helpers import Start, git

from sandbox.docker import DockerBackend
from sandbox.docker_sandbox import DockerSandbox
from sandbox.local import LocalBackend, LocalSandbox
from sandbox.sandbox import Image, Limits, Mount, SandboxSpec


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "backend" in metafunc.fixturenames:
        names = backends_of(metafunc.module.__name__, metafunc.function.__name__)
        metafunc.parametrize("backend", names, indirect=True)


@pytest.fixture
def backend(request: pytest.FixtureRequest, open_tmp: Path) -> LocalBackend | DockerBackend:
    if request.param == "docker":
        return DockerBackend([request.getfixturevalue("daemon")], scratch=open_tmp / "scratch")
    return LocalBackend(scratch=open_tmp / "scratch")


@pytest.fixture
async def start(backend: LocalBackend | DockerBackend) -> AsyncIterator[Start]:
    """Start sandboxes; they are closed at the end of the test."""
    started: list[LocalSandbox | DockerSandbox] = []

    async def start(
        image: Image | None = None,
        *,
        trial: str = "trial",
        limits: Limits | None = None,
        link: Path | None = None,
        mounts: tuple[Mount, ...] = (),
    ) -> LocalSandbox | DockerSandbox:
        spec = SandboxSpec("test", trial, image or Image(), mounts=mounts, link=link, limits=limits or Limits())
        started.append(await backend.start(spec))
        return started[-1]

    yield start
    await asyncio.gather(*(sandbox.close() for sandbox in started))


@pytest.fixture
async def sandbox(start: Start) -> LocalSandbox | DockerSandbox:
    return await start()


@pytest.fixture(scope="session")
def made_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A Harbor environment folder with a small git repository."""
    folder = tmp_path_factory.mktemp("made") / "environment"
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


@pytest.fixture
def environment(open_tmp: Path, made_once: Path) -> Path:
    """A copy of it to change. Of what is not changed, a daemon has the image already."""
    return shutil.copytree(made_once, open_tmp / "environment", symlinks=True)

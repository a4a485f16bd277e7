"""What a sandbox costs, beside the bare docker SDK in the same run: ``python benchmarks/sandboxes.py [--rounds 8]``.

The floor does with the SDK's own calls what the docker backend does: a container with the same settings from the same
image, started, one exec that copies the repository to its place and answers; what is compared takes turns. The local
backend does the same without a daemon. Then fifty at once: from asking for them until each has answered, the machine's
memory that each idle one takes, and the CPU time of this process while all of them wait in commands. Where no daemon
answers it starts one of its own (root; see tests/docker_daemon.py). Exits 1 where an aim is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import docker
import psutil
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))

from docker_daemon import docker_url

from sandbox.docker import DockerBackend
from sandbox.docker_container import AGENT_UID, BASE, creation, writable
from sandbox.local import LocalBackend, LocalSandbox
from sandbox.sandbox import Backend, Image, Sandbox, SandboxSpec

AT_ONCE, STARTS, WAITS = 50, 4, 5
SMALL, LARGE = (40, 1 << 12), (2000, 28 << 10)
"""Files of a repository, and bytes of each."""


def repository(folder: Path, files: int, size: int) -> Image:
    """An environment folder with a git repository of so many files."""
    repo = folder / "repo"
    for number in range(files):
        path = repo / f"part{number % 20}" / f"file{number}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(size))
    for command in ("init -q", "add -A", "-c user.name=x -c user.email=x commit -qm base"):
        subprocess.run(["git", *command.split()], cwd=repo, check=True)
    (folder / "Dockerfile").write_text("FROM scratch\nWORKDIR /testbed\nCOPY repo/ /testbed/\n")
    return Image(folder=folder)


class BareContainer:
    """One container by the SDK alone: its blocking calls on threads, one after the other."""

    def __init__(self, api: Any, threads: ThreadPoolExecutor) -> None:
        self._api, self._threads, self.id = api, threads, ""

    async def begin(self, image: str) -> None:
        await asyncio.get_running_loop().run_in_executor(self._threads, self._begin, image)

    def _begin(self, image: str) -> None:
        spec = SandboxSpec("benchmark", "bare", Image())
        request = creation(
            self._api, spec, image, places=writable("/testbed"), binds=(), link=None, volumes={}, cpus=None
        )
        request |= {"entrypoint": ["sleep", "1000"], "stdin_open": False}
        self.id = self._api.create_container(**request)["Id"]
        self._api.start(self.id)
        assert self._exec(f"cp -a {BASE}/. /testbed; echo answer") == b"answer\n"

    def _exec(self, script: str) -> bytes:
        made = self._api.exec_create(self.id, ["sh", "-c", script], user=str(AGENT_UID), workdir="/testbed")
        return bytes(self._api.exec_start(made["Id"]))

    async def close(self) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(self._threads, lambda: self._api.remove_container(self.id, force=True))


class Floor:
    """Bare containers of one daemon; as many start at once as the backend allows."""

    def __init__(self, url: str, images: dict[Image, str]) -> None:
        self._api = docker.APIClient(url, version="auto", max_pool_size=16)
        self._threads, self._starting = ThreadPoolExecutor(16), asyncio.Semaphore(STARTS)
        self._images = images

    async def ready(self, image: Image) -> BareContainer:
        async with self._starting:
            container = BareContainer(self._api, self._threads)
            await container.begin(self._images[image])
            return container

    def first_process(self, container: BareContainer) -> int:
        return shim_of(self._api, container.id)


def shim_of(api: Any, container: str) -> int:
    """The process that is a container's parent."""
    return psutil.Process(api.inspect_container(container)["State"]["Pid"]).ppid()


class Ours:
    """Sandboxes of a backend."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    async def ready(self, image: Image) -> Sandbox:
        sandbox = await self._backend.start(SandboxSpec("benchmark", "trial", image))
        assert (await sandbox.exec(["echo", "answer"], deadline=60)).output == b"answer\n"
        return sandbox

    def first_process(self, sandbox: Any) -> int:
        if isinstance(sandbox, LocalSandbox):
            assert sandbox._process is not None
            return sandbox._process.pid
        return shim_of(sandbox._host._client, sandbox.name)


async def in_turns(kinds: dict[str, Any], image: Image, rounds: int, step: Callable[[], None]) -> dict[str, float]:
    """Seconds from asking to the first answer, the median of each kind."""
    taken: dict[str, list[float]] = {name: [] for name in kinds}
    for number in range(rounds + 1):
        for name, kind in kinds.items():
            began = time.perf_counter()
            ready = await kind.ready(image)
            if number:  # the first only warms up
                taken[name].append(time.perf_counter() - began)
            await ready.close()
            step()
    return {name: statistics.median(each) for name, each in taken.items()}


async def at_once(kind: Any, image: Image) -> tuple[float, float, list[Any]]:
    """Seconds until all have answered, MB that the processes of each take, and they themselves."""
    began = time.perf_counter()
    ready = await asyncio.gather(*(kind.ready(image) for _ in range(AT_ONCE)))
    seconds = time.perf_counter() - began
    first = [kind.first_process(each) for each in ready]
    return seconds, sum(map(memory_of, first)) / AT_ONCE / 2**20, ready


def memory_of(first: int) -> int:
    """Proportional set size of a process and all below it."""
    process = psutil.Process(first)
    return sum(each.memory_full_info().pss for each in (process, *process.children(recursive=True)))


async def while_they_wait(sandboxes: list[Sandbox]) -> float:
    """The share of wall time that this process computes, in percent."""

    async def wait(sandbox: Sandbox) -> None:
        for _ in range(WAITS):
            assert (await sandbox.exec(["sleep", "3"], deadline=60)).exit_code == 0

    spent, began = time.process_time(), time.perf_counter()
    await asyncio.gather(*(wait(each) for each in sandboxes))
    return 100 * (time.process_time() - spent) / (time.perf_counter() - began)


async def close(things: list[Any]) -> None:
    await asyncio.gather(*(each.close() for each in things))


async def measure(url: str, folder: Path, rounds: int, progress: Progress) -> tuple[dict[str, dict[str, float]], float]:
    """Rows of figures by kind, and how many MB the large repository has."""
    small, large = repository(folder / "small", *SMALL), repository(folder / "large", *LARGE)
    size = sum(path.stat().st_size for path in folder.glob("large/repo/**/*") if path.is_file()) / 2**20
    there, here = DockerBackend([url], starts=STARTS), LocalBackend()
    await there.check()
    for backend in (there, here):
        assert await backend.fetch([small, large]) == {}
    specs = {image: SandboxSpec("benchmark", "image", image) for image in (small, large)}
    images = {image: (await there._images[there.hosts[0]].prepare(spec)).id for image, spec in specs.items()}
    kinds = {"docker": Ours(there), "bare": Floor(url, images), "local": Ours(here)}
    bar = progress.add_task("one at a time", total=(rounds + 1 + rounds // 2 + 1) * len(kinds))
    rows = {
        "first": await in_turns(kinds, small, rounds, lambda: progress.advance(bar)),
        "reset": await in_turns(kinds, large, rounds // 2, lambda: progress.advance(bar)),
        "fifty": {},
        "memory": {},
        "wait": {},
    }
    bar = progress.add_task(f"{AT_ONCE} at once", total=len(kinds))
    for name, kind in kinds.items():
        rows["fifty"][name], rows["memory"][name], ready = await at_once(kind, small)
        if name != "bare":
            rows["wait"][name] = await while_they_wait(ready)
        await close(ready)
        progress.advance(bar)
    return rows, size


def show(rows: dict[str, dict[str, float]], size: float, console: Console) -> bool:
    """Print the table; whether every aim is met."""
    table = Table("", "docker", "bare SDK", "docker / bare", "local", "docker / local", box=None)
    names = {
        "first": "asking to first answer, s",
        "reset": f"the same with a repository of {size:.0f} MB, s",
        "fifty": f"{AT_ONCE} at once until all have answered, s",
        "memory": "processes of an idle one, MB",
        "wait": f"CPU of this process while {AT_ONCE} wait, % of wall",
    }
    for key, row in rows.items():
        shown, bare = {name: f"{value:.2f}" for name, value in row.items()}, row.get("bare")
        above = "" if bare is None else f"{row['docker'] / bare:.2f}"
        ratio = "" if bare is None else f"{row['docker'] / row['local']:.1f}"
        table.add_row(names[key], shown["docker"], shown.get("bare", ""), above, shown["local"], ratio)
    console.print(table)
    console.print(
        "aims: first answer at most 1.3 times the bare SDK, local at least 5 times faster than docker, "
        "under 5 % of wall while all wait"
    )
    first = rows["first"]
    quick = first["docker"] <= 1.3 * first["bare"] and first["docker"] >= 5 * first["local"]
    return quick and max(rows["wait"].values()) < 5


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=8, help="how often each is started by itself")
    rounds = parser.parse_args().rounds
    console = Console()
    with tempfile.TemporaryDirectory(prefix="lego-bench-") as folder, docker_url() as url:
        os.chmod(folder, 0o755)
        with Progress(console=console, transient=True) as progress:
            rows, size = asyncio.run(measure(url, Path(folder), rounds, progress))
    return 0 if show(rows, size, console) else 1


if __name__ == "__main__":
    sys.exit(main())

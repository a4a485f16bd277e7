"""What a harness costs until its first model call, inside the local sandbox and outside any.

    python benchmarks/harness_startup.py [NAME ...] [--rounds N]

For every round and harness the same command runs twice, one right after the other: bare, on this machine, with its
runtime where it was built; and in a local sandbox, with its runtime mounted. Both are timed from the launch to the
arrival of the first request, and the processor time is that of all processes that the launch began. The first round
warms the disk's cache and does not count.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import shutil
import statistics
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

import psutil
from aiohttp import web

from harness_adapters.adapter import HarnessAdapter, HarnessContext
from harness_adapters.registry import adapter_names, load_adapter
from harness_adapters.runtime import MOUNTED_AT, BuiltRuntime, build_runtime, cache_folder
from lego_verl.capture.bytelevel import byte_renderer
from lego_verl.capture.parser import HermesParser
from lego_verl.harness_check.check import make_task
from lego_verl.policies.scripted import ScriptedPolicy
from lego_verl.proxy.errors import ProxyError
from lego_verl.proxy.server import ProxyServer, Serve
from lego_verl.proxy.session import Session
from lego_verl.tasks.task import Task
from lego_verl.trial.running import HARNESS_HOME
from sandbox.local import LocalBackend
from sandbox.sandbox import Image, Limits, Mount, SandboxSpec

SECONDS = 120.0


@dataclass(frozen=True)
class Cost:
    wall: float
    cpu: float


class FirstCall:
    """Tells when a session is first asked, and what the processes below this one have used until then."""

    def __init__(self) -> None:
        self._asked: asyncio.Event = asyncio.Event()
        self._before = 0.0
        self._began = 0.0
        self.cost: Cost | None = None

    def launch(self) -> None:
        self.cost = None
        self._asked.clear()
        self._before, self._began = cpu_below(), time.perf_counter()

    async def look(self, session: Session, request: web.BaseRequest, serve: Serve) -> web.StreamResponse:
        if self.cost is None and request.method == "POST":
            self.cost = Cost(time.perf_counter() - self._began, cpu_below() - self._before)
            self._asked.set()
        raise ProxyError(session.end_status, "that was all that is measured")

    async def came(self) -> Cost:
        async with asyncio.timeout(SECONDS):
            await self._asked.wait()
        assert self.cost is not None
        return self.cost


def cpu_below() -> float:
    """Processor seconds of all processes below this one, those that ended included."""
    used = 0.0
    for process in psutil.Process().children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            used += times.user + times.system + times.children_user + times.children_system
    return used


def end_tree(pid: int) -> None:
    """A harness may start processes in sessions of their own."""
    with contextlib.suppress(psutil.NoSuchProcess):
        parent = psutil.Process(pid)
        for process in [*parent.children(recursive=True), parent]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()


def session(name: str, adapter: HarnessAdapter) -> Session:
    renderer, parser = byte_renderer(), HermesParser()
    policy = ScriptedPolicy([{"text": "Done."}], renderer=renderer, parser=parser)
    return Session(name, policy, renderer=renderer, parser=parser, end_status=adapter.end_status)


def context(base_url: str, *, workdir: str, home: str, runtime: str, python: str) -> HarnessContext:
    return HarnessContext(
        *(base_url, "lego", "policy", "Write mended into answer.txt.", workdir, home, runtime, python),
        turn_limit=9,
        seconds=SECONDS,
    )


async def bare(
    name: str, adapter: HarnessAdapter, built: BuiltRuntime, server: ProxyServer, first: FirstCall, task: Task
) -> Cost:
    with tempfile.TemporaryDirectory(prefix="lego-bare-") as folder:
        repository, home = Path(folder, "repository"), Path(folder, "home")
        shutil.copytree(task.environment / "repo", repository)
        home.mkdir()
        address = await server.open(session(name, adapter))
        python = built.python.replace(MOUNTED_AT, str(built.folder))
        where = context(
            address.base_url, workdir=str(repository), home=str(home), runtime=str(built.folder), python=python
        )
        for path, content in adapter.files(where).items():
            Path(path).parent.mkdir(parents=True, exist_ok=True)
            Path(path).write_bytes(content)
        environment = {"PATH": os.environ["PATH"], "HOME": str(home), "LANG": "C.UTF-8", **adapter.environment(where)}
        command = list(adapter.command(where))
        first.launch()
        process = await asyncio.create_subprocess_exec(
            *command,
            cwd=repository,
            env=environment,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )
        try:
            return await first.came()
        finally:
            end_tree(process.pid)
            await process.wait()
            await server.close(name)


async def inside(
    name: str,
    adapter: HarnessAdapter,
    built: BuiltRuntime,
    server: ProxyServer,
    first: FirstCall,
    backend: LocalBackend,
    image: Image,
) -> tuple[Cost, float]:
    """The cost, and the seconds that the sandbox took to start before."""
    run = f"startup-{os.getpid()}"
    folder = backend.scratch.folder(run, name)
    address = await server.open(session(name, adapter), socket=folder / "s")
    limits = Limits(memory_mb=1024 + adapter.memory_mb, processes=256 + adapter.processes, disk_mb=256)
    began = time.perf_counter()
    sandbox = await backend.start(
        SandboxSpec(run, name, image, [Mount(built.folder, MOUNTED_AT)], address.socket, limits)
    )
    started = time.perf_counter() - began
    try:
        assert sandbox.base_url is not None
        where = context(
            sandbox.base_url, workdir="/testbed", home=HARNESS_HOME, runtime=MOUNTED_AT, python=built.python
        )
        await sandbox.put(adapter.files(where))
        command, environment = list(adapter.command(where)), adapter.environment(where)
        first.launch()
        working = asyncio.create_task(sandbox.exec(command, deadline=SECONDS, env=environment))
        try:
            return await first.came(), started
        finally:
            working.cancel()
            await asyncio.wait({working})
    finally:
        await sandbox.close()
        await server.close(name)
        shutil.rmtree(folder, ignore_errors=True)
        await backend.reap(run)


async def measure(names: list[str], rounds: int) -> None:
    first = FirstCall()
    server, backend = ProxyServer(watch=first.look), LocalBackend()
    await server.start()
    folder = Path(tempfile.mkdtemp(prefix="lego-startup-"))
    folder.chmod(0o755)
    task = make_task(folder / "task")
    image = Image(task.environment, task.image, task.workdir)
    adapters = {name: load_adapter(name) for name in names}
    built = {name: await build_runtime(adapter.runtime, cache_folder()) for name, adapter in adapters.items()}
    costs: dict[str, list[tuple[Cost, Cost, float]]] = {name: [] for name in names}
    try:
        for number in range(rounds + 1):
            for name, adapter in adapters.items():
                outside = await bare(f"{name}-b{number}", adapter, built[name], server, first, task)
                within, started = await inside(
                    *(f"{name}-s{number}", adapter, built[name], server, first, backend, image)
                )
                if number:
                    costs[name].append((outside, within, started))
    finally:
        await server.stop()
        shutil.rmtree(folder)
    show(costs)


def show(costs: dict[str, list[tuple[Cost, Cost, float]]]) -> None:
    """Medians; a ratio is the median of the rounds' own ratios, since rounds differ by what else the machine does."""
    print(f"{'':16}{'bare':>14}{'sandbox':>17}{'sandbox / bare':>22}{'sandbox':>12}")
    print(f"{'harness':16}{'wall':>7}{'CPU':>7}{'wall':>10}{'CPU':>7}{'wall':>15}{'CPU':>7}{'starts in':>12}")
    for name, rows in costs.items():
        walls, cpus = ([getattr(row[1], kind) / getattr(row[0], kind) for row in rows] for kind in ("wall", "cpu"))
        numbers = [
            statistics.median(values)
            for values in (
                [row[0].wall for row in rows],
                [row[0].cpu for row in rows],
                [row[1].wall for row in rows],
                [row[1].cpu for row in rows],
            )
        ]
        print(
            f"{name:16}{numbers[0]:7.2f}{numbers[1]:7.2f}{numbers[2]:10.2f}{numbers[3]:7.2f}"
            f"{statistics.median(walls):15.2f}{statistics.median(cpus):7.2f}"
            f"{statistics.median(row[2] for row in rows):12.2f}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description="What a harness costs until its first model call.")
    parser.add_argument("names", nargs="*", help=f"of {', '.join(adapter_names())} (default: all)")
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    asyncio.run(measure(given.names or adapter_names(), given.rounds))


if __name__ == "__main__":
    main()

"""One run of sixty trials in which all goes wrong that can: each ends in its one right bucket, in bounded time."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import uuid
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from chaos_cases import Group, Kind, everywhere, honest, of_docker
from chaos_checks import check_endings, check_ledger, check_nothing_left, containers
from chaos_parts import DaemonFault, Staged, make_tasks, tell_refusals
from chaos_step import Step
from docker_daemon import DockerDaemon
from trial_helpers import ScriptHarness, as_backend, sandboxes_of

from harness_adapters.mini_swe_agent import MiniSweAgent
from harness_adapters.runtime import build_runtime, cache_folder
from lego_verl.proxy.server import ProxyServer
from lego_verl.tasks.task import Task
from lego_verl.trial.bench import Bench
from lego_verl.trial.retries import RetryPolicy
from lego_verl.workers.run_ledger import RunLedger
from lego_verl.workers.step_account import StepAccount
from sandbox.docker import DockerBackend
from sandbox.local import LocalBackend
from sandbox.sandbox import Backend, Image, Limits, SandboxSpec
from sandbox.scratch import Scratch

BOUND = 480.0
"""Everything that hangs in these tests does so for an hour: where one deadline does not act, this one says so."""
LIMITS = Limits(memory_mb=256, processes=48, disk_mb=32, output_bytes=1 << 16)


def bench_on(backend: Backend, run: str, server: ProxyServer, **more: object) -> Bench:
    made = Bench(
        run=run,
        backend=as_backend(Staged(backend)),  # type: ignore[arg-type]
        scratch=backend.scratch,
        server=server,
        adapter=ScriptHarness("true"),
        runtime=None,
        slots=asyncio.Semaphore(8),
        starts=asyncio.Semaphore(4),
        sandbox=LIMITS,
        regrading=RetryPolicy(retries=1, first_delay=0.05),
    )
    return replace(made, **more)  # type: ignore[arg-type]


def images(tasks: Mapping[Kind, Task]) -> list[Image]:
    return [Image(task.environment, task.image, task.workdir) for task in tasks.values()]


async def test_sixty_trials(daemon: str, own: DockerDaemon, open_tmp: Path) -> None:
    run = f"chaos-{uuid.uuid4().hex[:8]}"
    tasks = make_tasks(open_tmp, missing="FROM no-such/image:1\nWORKDIR /testbed\nRUN make\n")
    groups = [*everywhere(), *of_docker()]
    spare = 60 - sum(len(group.cases) for group in groups)
    groups.append(Group("spare", honest("spare", spare)))
    by_daemon = {where: [g for g in groups if g.where == where] for where in ("steady", "killed", "restored")}
    server = ProxyServer()
    await server.start()
    steady = bench_on(DockerBackend([daemon]), run, server)
    backend = DockerBackend([own.url])
    shaken = bench_on(backend, run, server, regrading=RetryPolicy(retries=6, first_delay=0.05))
    await asyncio.gather(*(each.backend.fetch(images(tasks)) for each in (steady, shaken)))
    adapter = MiniSweAgent()
    built = await build_runtime(adapter.runtime, cache_folder(), share_usr=False)
    faults = {where: DaemonFault(own, 5, f"{where}-down-a1") for where in ("killed", "restored")}
    for fault in faults.values():
        tell_refusals(backend, fault.refused)
    step = Step(
        benches={"steady": steady, "killed": shaken, "restored": shaken},
        mini=replace(steady, adapter=adapter, runtime=built),
        tasks=tasks,
        ledger=RunLedger(str(open_tmp / "events.jsonl")),
        at_daemon={where: fault.hooks for where, fault in faults.items()},
    )

    async def on_a_daemon_that_is_killed() -> None:
        await asyncio.gather(step.run(by_daemon["killed"]), faults["killed"].strike())
        await asyncio.to_thread(own.stop)
        own.flags = ("--live-restore",)
        await asyncio.to_thread(own.start)
        await asyncio.gather(step.run(by_daemon["restored"]), faults["restored"].strike())

    try:
        async with asyncio.timeout(BOUND):
            await asyncio.gather(
                step.run(by_daemon["steady"]),
                on_a_daemon_that_is_killed(),
                another_driver_is_killed(steady, daemon, open_tmp),
            )
        check_endings(step, groups)
        check_ledger(StepAccount(**step.ledger.close(1, "train", min_group=2)), groups)
        check_nothing_left(run, server, steady.scratch)
        assert (await containers(daemon, run), await containers(own.url, run)) == ([], [])
    finally:
        await server.stop()
        await steady.backend.reap(run)


async def another_driver_is_killed(bench: Bench, daemon: str, folder: Path) -> None:
    """Of another run, on the same daemon: what it leaves goes, exactly; what lives stays."""
    other = f"killed-{uuid.uuid4().hex[:8]}"
    living = await bench.backend.start(SandboxSpec(bench.run, "living", Image()))
    program = Path(__file__).with_name("chaos_driver.py")
    driver = subprocess.Popen([sys.executable, program, other, daemon, folder / "other"], stdout=subprocess.PIPE)
    assert driver.stdout is not None
    try:
        assert await asyncio.to_thread(driver.stdout.readline) == b"ready\n"
        names = await containers(daemon, other)
        assert len(names) == 2
        assert len(sandboxes_of(driver.pid)) == 2
        # One that stands still does not notice that its driver has gone: nothing but the reaper ends it.
        host = DockerBackend([daemon]).hosts[0]
        seen = await host.call(lambda api: api.inspect_container(names[0].lstrip("/")))
        os.kill(seen["State"]["Pid"], signal.SIGSTOP)
    finally:
        driver.send_signal(signal.SIGKILL)
        driver.wait()
        driver.stdout.close()
    while await containers(daemon, other) != names[:1] or sandboxes_of(driver.pid):
        await asyncio.sleep(0.1)
    reaped = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "lego_verl.reap", other),
        env={**os.environ, "DOCKER_HOST": daemon},
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    out, _ = await reaped.communicate()
    assert reaped.returncode == 0, out
    assert names[0].lstrip("/").encode() in out, out
    assert names[1].lstrip("/").encode() not in out, out
    assert await containers(daemon, other) == []
    assert not (Scratch().root / other).exists()
    assert (await living.exec(["echo", "still here"], deadline=30)).output == b"still here\n"
    await living.close()


async def test_a_step_on_the_local_sandbox(open_tmp: Path) -> None:
    run = f"chaos-{uuid.uuid4().hex[:8]}"
    tasks = make_tasks(open_tmp, missing="FROM debian\nWORKDIR /testbed\nRUN make\n")
    server = ProxyServer()
    await server.start()
    bench = bench_on(LocalBackend(), run, server)
    groups = everywhere()
    step = Step({"steady": bench}, None, tasks, RunLedger(str(open_tmp / "events.jsonl")))
    try:
        async with asyncio.timeout(BOUND):
            await step.run(groups)
        check_endings(step, groups)
        check_ledger(StepAccount(**step.ledger.close(1, "train", min_group=2)), groups)
        check_nothing_left(run, server, bench.scratch)
    finally:
        await server.stop()
        await bench.backend.reap(run)

"""However it ends, nothing of a sandbox stays: no process, no mount, no folder."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest
from sandbox_helpers import PATIENCE, descriptors, remaining, until

from sandbox.docker import DockerBackend
from sandbox.local import LocalBackend
from sandbox.orphans import identity, sandbox_processes
from sandbox.sandbox import Image, Limits, SandboxError, SandboxSpec
from sandbox.scratch import Scratch

_DRIVER = """
import asyncio, sys
from pathlib import Path
from sandbox.local import LocalBackend
from sandbox.sandbox import *

async def main():
    backend = LocalBackend(scratch=Path(sys.argv[1]))
    link = backend.scratch.folder("killed", "trial") / "link.sock"
    await asyncio.start_unix_server(lambda reader, writer: None, link)
    link.chmod(0o666)
    sandboxes = await asyncio.gather(
        *(backend.start(SandboxSpec("killed", f"t{n}", Image(), link=link)) for n in range(3))
    )
    script = "trap '' TERM; setsid nohup sleep %s & setsid sleep %s & sleep %s" % ((sys.argv[2],) * 3)
    runs = [asyncio.create_task(sandbox.exec(["bash", "-c", script], deadline=1000)) for sandbox in sandboxes]
    print("ready", flush=True)
    await asyncio.gather(*runs)

asyncio.run(main())
"""


def _with_marker(marker: str) -> list[psutil.Process]:
    """The processes with this text among their arguments: ours, by a number that only they sleep for."""
    everyone = psutil.process_iter(["cmdline"])
    return [process for process in everyone if any(marker in word for word in process.info["cmdline"] or ())]


def _mounts(of: Path) -> list[str]:
    """What is mounted in a folder, or from it; others on this machine may mount what they like."""
    return [line for line in Path("/proc/self/mounts").read_text().splitlines() if str(of) in line]


def _wait(happened: Callable[[], object]) -> None:
    end = time.monotonic() + PATIENCE
    while not happened():
        assert time.monotonic() < end
        time.sleep(0.05)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_driver(open_tmp: Path, how: signal.Signals) -> None:
    marker = f"1{os.getpid()}.{how.value}"  # a number of seconds that only these sleeps sleep
    (open_tmp / "tmp").mkdir()
    driver = subprocess.Popen(
        [sys.executable, "-c", _DRIVER, str(open_tmp / "s"), marker],
        env={**os.environ, "TMPDIR": str(open_tmp / "tmp")},
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    assert driver.stdout is not None
    assert driver.stdout.readline() == b"ready\n"
    _wait(lambda: len(_with_marker(marker)) >= 3 * 3)
    driver.send_signal(how)
    driver.wait()
    driver.stdout.close()
    _wait(lambda: not _with_marker(marker))
    assert _mounts(open_tmp) == []
    assert os.listdir(open_tmp / "tmp") == []
    assert os.listdir(open_tmp / "s") == ["killed"]  # the link's folder, which the next start clears
    assert asyncio.run(LocalBackend(scratch=open_tmp / "s").reap()) == 1
    assert os.listdir(open_tmp / "s") == []


_STARTER = """
import asyncio, sys
from sandbox.local import LocalBackend
from sandbox.sandbox import *

async def main():
    backend = LocalBackend()
    print("ready", flush=True)
    while True:
        sandbox = await backend.start(SandboxSpec(sys.argv[1], "trial", Image()))
        asyncio.ensure_future(sandbox.close())

asyncio.run(main())
"""


def test_a_driver_killed_in_the_middle_of_a_start(open_tmp: Path) -> None:
    """bwrap has a gap in which it does not yet die with its parent; the next start clears what fell into it."""
    run = f"killed {os.getpid()}"
    for moment in (0.01, 0.02, 0.03, 0.04, 0.06):
        driver = subprocess.Popen([sys.executable, "-c", _STARTER, run], stdout=subprocess.PIPE)
        assert driver.stdout is not None
        assert driver.stdout.readline() == b"ready\n"
        time.sleep(moment)
        driver.kill()
        driver.wait()
        driver.stdout.close()
    backend = LocalBackend(scratch=open_tmp / "s")

    def gone() -> bool:
        asyncio.run(backend.reap())
        return [pid for pid, _, of_run in sandbox_processes() if of_run == run.replace(" ", "_")] == []

    _wait(gone)


def test_orphans_are_ended_and_only_they(open_tmp: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    made = {}
    for starter in (f"{gone.pid}-1", identity(os.getpid())):
        made[starter] = subprocess.Popen([f"lego-sandbox {starter} run trial", "100"], executable="/bin/sleep")
    time.sleep(0.1)
    backend = LocalBackend(scratch=open_tmp / "s")
    assert asyncio.run(backend.reap("another run")) == 0
    assert asyncio.run(backend.reap("run")) == 1
    orphan, mine = made.values()
    assert orphan.wait(PATIENCE) == -signal.SIGKILL
    assert mine.poll() is None
    mine.kill()
    mine.wait()


async def test_cancelled_tasks(backend: LocalBackend | DockerBackend) -> None:
    """At whatever moment of a sandbox's life the cancellation comes."""

    async def life() -> None:
        sandbox = await backend.start(SandboxSpec("run", "trial", Image()))
        try:
            await sandbox.exec(["sleep", "1000"], deadline=1000)
        finally:
            await sandbox.close()

    began = time.monotonic()
    sandbox = await backend.start(SandboxSpec("run", "trial", Image()))
    whole = time.monotonic() - began
    await sandbox.close()
    before = descriptors(backend)
    for part in (0, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.7, 0.9, 1.0, 1.2, 2.5):
        tasks = [asyncio.create_task(life()) for _ in range(2)]
        await asyncio.sleep(part * whole)
        for task in tasks:
            task.cancel()
        done = await asyncio.gather(*tasks, return_exceptions=True)
        assert all(isinstance(result, asyncio.CancelledError) for result in done), done

    async def gone() -> bool:
        return await remaining(backend) == [] and descriptors(backend) <= before

    await until(gone, "nothing is left")


async def test_many_starts_leave_no_descriptor_and_no_child(backend: LocalBackend | DockerBackend) -> None:
    await (await backend.start(SandboxSpec("run", "trial", Image()))).close()
    before, children = descriptors(backend), psutil.Process().children()
    for _ in range(5):
        await (await backend.start(SandboxSpec("run", "trial", Image()))).close()
    with pytest.raises(SandboxError, match="limits"):
        await backend.start(SandboxSpec("run", "trial", Image(), limits=Limits(processes=0)))
    assert await remaining(backend) == []
    assert descriptors(backend) <= before
    assert psutil.Process().children() == children


def test_reaping_takes_what_is_dead_and_only_that(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path / "s")
    mine = scratch.folder("mine", "a")
    scratch.folder("mine", "b/with:odd name " + "x" * 100)
    script = f"from sandbox.scratch import Scratch; from pathlib import Path; s = Scratch(Path({str(scratch.root)!r}))"
    script += "; s.folder('dead', 'a'); s.folder('dead', 'b'); s.folder('mine', 'c')"
    subprocess.run([sys.executable, "-c", script], check=True)
    assert scratch.reap() == 2
    assert sorted(path.name for path in scratch.root.iterdir()) == ["mine"]
    assert scratch.folder("mine", "a") == mine
    assert scratch.reap("other") == 0
    assert scratch.reap("mine") == 3
    assert not mine.exists()
    assert Scratch(tmp_path / "never made").reap() == 0
    assert all(len(str(scratch.folder("r" * 200, "t" * 200) / "link.sock")) - len(str(scratch.root)) < 82 for _ in "a")


def test_a_run_of_the_same_name_has_folders_of_its_own(tmp_path: Path) -> None:
    """Else its trial's link would lead to the session of ours."""
    scratch = Scratch(tmp_path / "s")
    mine = scratch.folder("run", "trial")
    script = f"from sandbox.scratch import Scratch; from pathlib import Path; s = Scratch(Path({str(scratch.root)!r}))"
    script += "; print(s.folder('run', 'trial'))"
    theirs = Path(
        subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True).stdout[:-1]
    )
    assert theirs != mine
    assert theirs.is_dir()
    assert theirs.parent == mine.parent


def test_a_process_number_used_again_is_not_the_owner(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path / "s")
    owner = next((scratch.folder("run", "trial").parent / "owner").iterdir())
    owner.rename(owner.with_name(f"{os.getpid()}-1"))
    assert scratch.reap() == 1


def test_a_folder_that_is_only_just_made_is_left_alone(tmp_path: Path) -> None:
    scratch = Scratch(tmp_path / "s")
    home = scratch.folder("run", "trial").parent
    next((home / "owner").iterdir()).unlink()
    assert scratch.reap() == 0
    os.utime(home, (1, 1))
    assert scratch.reap() == 1

"""What a command may use, and that the end really is the end."""

from __future__ import annotations

import asyncio
import resource

import pytest
from sandbox_helpers import Start, busy, output

from sandbox.local import LocalSandbox
from sandbox.sandbox import Limits

_TREE = """
trap '' TERM HUP INT
setsid bash -c 'trap "" TERM; while :; do sleep 0.1; date +%s%N >/tmp/alive; done' >/dev/null 2>&1 &
nohup setsid setsid sleep 1000 >/dev/null 2>&1 &
python3 -c '
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        while True: time.sleep(1)
    os._exit(0)
'
echo started
"""


async def _others(sandbox: LocalSandbox) -> list[str]:
    """The processes that a new command finds besides itself and the keeper."""
    seen = await sandbox.exec(
        ["python3", "-c", "import os; print(*[p for p in os.listdir('/proc') if p.isdigit()])"], deadline=10
    )
    return [pid for pid in seen.output.decode().split() if pid != "1"][1:]


async def test_the_deadline_ends_a_tree_that_does_not_want_to(sandbox: LocalSandbox) -> None:
    done = await sandbox.exec(["bash", "-c", _TREE + "while :; do sleep 1; done"], deadline=2)
    assert done.timed_out
    assert done.exit_code is None
    assert done.output == b"started\n"
    assert done.seconds >= 2
    assert await _others(sandbox) == []
    before = await sandbox.get("/tmp/alive")
    await asyncio.sleep(0.3)
    assert await sandbox.get("/tmp/alive") == before


async def test_what_a_command_leaves_running_ends_with_it(sandbox: LocalSandbox) -> None:
    done = await sandbox.exec(["bash", "-c", _TREE], deadline=60)
    assert (done.exit_code, done.output, done.timed_out) == (0, b"started\n", False)
    assert await _others(sandbox) == []


async def test_a_child_that_holds_the_output_open_does_not_delay_the_end(sandbox: LocalSandbox) -> None:
    done = await sandbox.exec(["bash", "-c", "setsid sleep 1000 & echo done"], deadline=60)
    assert (done.exit_code, done.output, done.timed_out) == (0, b"done\n", False)


async def test_a_fork_bomb_is_bounded_and_ends(start: Start) -> None:
    sandbox = await start(limits=Limits(processes=40))
    script = "f() { f | f & }; f 2>/dev/null; sleep 2; ls -d /proc/[0-9]* | wc -l; sleep 100"
    bomb = asyncio.create_task(sandbox.exec(["bash", "-c", "(" + script + ") 2>/dev/null"], deadline=3))
    most = 0
    while not bomb.done():
        await asyncio.sleep(0.2)
        most = max(most, _inside(sandbox))
    assert (await bomb).timed_out
    assert 10 < most <= 41 + 1  # it did fork, up to the limit; and the keeper
    assert await output(sandbox, "echo still here") == "still here"
    assert await _others(sandbox) == []


def _inside(sandbox: LocalSandbox) -> int:
    """How many processes run in the sandbox, seen from outside."""
    import psutil

    assert sandbox._process is not None
    return len(psutil.Process(sandbox._process.pid).children(recursive=True))


async def test_one_sandbox_forking_leaves_room_for_another(start: Start) -> None:
    first, second = await start(limits=Limits(processes=20)), await start(limits=Limits(processes=20), trial="b")
    script = "for i in $(seq 17); do sleep 1000 & done; touch /tmp/runs; wait"
    held = await busy(first, script)
    ran = await second.exec(["bash", "-c", "for i in $(seq 15); do sleep 0.1 & done; wait && echo fine"], deadline=60)
    assert ran.output == b"fine\n"
    held.cancel()


async def test_100_mb_of_output(start: Start) -> None:
    sandbox = await start(limits=Limits(output_bytes=1 << 20))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    done = await sandbox.exec(["head", "-c", str(100 << 20), "/dev/zero"], deadline=60)
    assert done.exit_code == 0
    assert (len(done.output), done.dropped_bytes) == (1 << 20, 99 << 20)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 50 << 10


async def test_output_of_a_command_that_never_stops(sandbox: LocalSandbox) -> None:
    done = await sandbox.exec(["yes"], deadline=1)
    assert done.timed_out
    assert len(done.output) == 4 << 20
    assert done.dropped_bytes > 0


@pytest.mark.parametrize("place", ["/testbed", "/tmp", "/home/agent", "/dev/shm", "/", "/var/tmp"])
async def test_everything_writable_counts_towards_the_disk(start: Start, place: str) -> None:
    sandbox = await start(limits=Limits(disk_mb=32))
    assert not await sandbox.disk_full()
    done = await sandbox.exec(["dd", "if=/dev/zero", f"of={place}/big", "bs=1M", "count=33"], deadline=30)
    assert b"No space left on device" in done.output
    assert await sandbox.disk_full() == (place != "/dev/shm")
    total = await output(
        sandbox, "df --output=size,target -k -x proc | awk '/ (\\/|\\/dev\\/shm)$/ { s += $1 } END { print s }'"
    )
    assert int(total) <= 32 << 10


async def test_nothing_else_can_be_written(start: Start) -> None:
    sandbox = await start(limits=Limits(disk_mb=16))
    for place in ("/dev", "/etc", "/usr", "/bin", "/run/x", "/sys", "/proc"):
        done = await sandbox.exec(["dd", "if=/dev/zero", f"of={place}/big", "bs=1M", "count=17"], deadline=30)
        assert done.exit_code != 0, place


async def test_a_memory_hog_is_ended_and_told(start: Start) -> None:
    sandbox = await start(limits=Limits(memory_mb=200))
    hog = "import time\nkept = []\nwhile True:\n    kept.append(bytearray(10 << 20)); time.sleep(0.01)"
    done = await sandbox.exec(["python3", "-c", hog], deadline=30)
    assert done.out_of_memory
    assert done.exit_code is None
    assert not done.timed_out
    assert await output(sandbox, "echo still here") == "still here"


async def test_memory_is_the_sum_over_the_sandbox(start: Start) -> None:
    sandbox = await start(limits=Limits(memory_mb=200))
    part = 'python3 -c "import time; kept = bytearray(80 << 20); time.sleep(20)" &'
    done = await sandbox.exec(["bash", "-c", part * 4 + "wait"], deadline=30)
    assert done.out_of_memory


_SHARE = """
import os, time
kept = bytearray(100 << 20)
for _ in range(4):
    if os.fork() == 0:
        break
time.sleep(0.7)
"""
_RESERVE = """
import mmap, time
kept = mmap.mmap(-1, 40 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANON | 0x4000)  # MAP_NORESERVE
time.sleep(0.3)
"""


@pytest.mark.parametrize("script", [_SHARE, _RESERVE], ids=["shared by forks", "only reserved"])
async def test_memory_that_is_not_used_twice_does_not_count(start: Start, script: str) -> None:
    sandbox = await start(limits=Limits(memory_mb=200))
    done = await sandbox.exec(["python3", "-c", script], deadline=30)
    assert (done.exit_code, done.out_of_memory, done.output) == (0, False, b"")


async def test_no_core_is_dumped(sandbox: LocalSandbox) -> None:
    assert await output(sandbox, "ulimit -c; ulimit -Hc") == "0\n0"

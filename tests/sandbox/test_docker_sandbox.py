"""What a container is: nobody's privileges, few writable places, and what it was asked for."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest
from sandbox_helpers import Start, output, remaining

from sandbox.docker import DockerBackend
from sandbox.docker_container import AGENT_UID, HOME
from sandbox.docker_sandbox import DockerSandbox
from sandbox.sandbox import Image, Limits, Mount, SandboxError, SandboxSpec


async def test_no_privilege(sandbox: DockerSandbox) -> None:
    status = dict(line.split(":\t", 1) for line in (await output(sandbox, "cat /proc/self/status")).splitlines())
    assert status["Uid"].split() == status["Gid"].split() == [str(AGENT_UID)] * 4
    assert {status[f"Cap{name}"] for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert (status["NoNewPrivs"], status["Seccomp"]) == ("1", "2")
    assert status["Groups"].split() in ([], [str(AGENT_UID)])


async def test_the_keeper_is_another_user_and_the_last_to_go_when_memory_is_short(sandbox: DockerSandbox) -> None:
    script = "whoami; stat -c %u /proc/1; cat /proc/self/oom_score_adj /proc/1/oom_score_adj"
    name, keeper, mine, its = (await output(sandbox, script)).splitlines()
    assert (name, keeper, mine) == ("agent", "0", "1000")
    assert int(its) < 1000


async def test_the_tools_are_there(sandbox: DockerSandbox) -> None:
    assert await output(sandbox, "python3 -c 'print(6 * 7)'; yes | head -1; echo ${PIPESTATUS[0]}") == "42\ny\n141"
    assert "git version" in await output(sandbox, "git --version")
    certificates = "import ssl; print(ssl.create_default_context().cert_store_stats()['x509'] > 0)"
    assert (await sandbox.exec(["python3", "-c", certificates], deadline=10)).output == b"True\n"
    assert (await output(sandbox, "grep SigIgn /proc/self/status")).split()[1] == "0" * 16


async def test_files_in_and_out(sandbox: DockerSandbox) -> None:
    files = {f"{HOME}/new/a": b"", "/testbed/b": bytes(range(256)) * 20_000, "/tmp/c d\n": b"x"}
    await sandbox.put(files)
    assert {path: await sandbox.get(path) for path in files} == files
    await sandbox.put({"/tmp/run": b"#!/bin/sh\necho ran\n"}, executable=True)
    assert (await sandbox.exec(["/tmp/run"], deadline=10)).output == b"ran\n"
    assert await output(sandbox, "stat -c '%a %U' /testbed/b /tmp/run") == "644 agent\n755 agent"


async def test_the_keeper_reaches_no_more_than_the_agent(sandbox: DockerSandbox) -> None:
    """Although it is root: a planted path must not make it read or write for the agent."""
    await output(sandbox, "ln -s /etc/shadow /tmp/secret; ln -s /etc /tmp/etc; mkdir -m 0 /tmp/closed")
    with pytest.raises(SandboxError, match="Permission denied"):
        await sandbox.get("/tmp/secret")
    for path in ("/tmp/etc/x", "/root/x", "/usr/x", "/run/lego/x"):
        with pytest.raises(SandboxError, match=r"could not be written: (Permission denied|Read-only)"):
            await sandbox.put({path: b"x"})


async def test_every_writable_place_has_a_size(start: Start) -> None:
    sandbox = await start(limits=Limits(disk_mb=32))
    assert not await sandbox.disk_full()
    for place in ("/testbed", "/tmp", "/var/tmp", HOME, "/logs", "/solution", "/dev/shm"):
        done = await sandbox.exec(["dd", "if=/dev/zero", f"of={place}/big", "bs=1M", "count=33"], deadline=30)
        assert b"No space left on device" in done.output
        assert await sandbox.disk_full() == (place != "/dev/shm")
        await output(sandbox, f"rm {place}/big")


async def test_the_writable_places_share_the_disk_limit(start: Start) -> None:
    sandbox = await start(limits=Limits(disk_mb=32))
    each = "dd if=/dev/zero of={}/big bs=1M count=11 2>/dev/null; "
    await output(sandbox, each.format("/tmp") + each.format("/testbed"))
    assert not await sandbox.disk_full()
    await output(sandbox, each.format(HOME))
    assert await sandbox.disk_full()


async def test_there_is_no_other_writable_place(sandbox: DockerSandbox) -> None:
    places = {"/tmp", "/var/tmp", HOME, "/testbed", "/logs", "/solution"}
    found = await output(sandbox, "find / -xdev -writable ! -type l -print 2>/dev/null")
    assert set(found.split()) == places
    mounted = 'for p in $(df -a --output=target | tail -n +2); do [ -d "$p" ] && [ -w "$p" ] && echo "$p"; done'
    assert set((await output(sandbox, mounted)).split()) - {"/dev/mqueue"} == places | {"/dev/shm"}


async def test_small_files_cannot_use_up_the_machine(start: Start) -> None:
    sandbox = await start(limits=Limits(disk_mb=16))
    script = """
import os
try:
    for n in range(20000):
        os.close(os.open(f"/tmp/{n}", os.O_CREAT))
except OSError as error:
    print(error.strerror, n)
"""
    done = await sandbox.exec(["python3", "-c", script], deadline=30)
    assert done.output.startswith(b"No space left on device")


async def test_a_fork_bomb_is_bounded_and_ends(start: Start) -> None:
    sandbox = await start(limits=Limits(processes=40))
    script = "(f() { f | f & }; f; sleep 1; ls -d /proc/[0-9]* | wc -l) 2>/dev/null; sleep 100"
    assert (await sandbox.exec(["bash", "-c", script], deadline=3)).timed_out
    # counted by the shell itself: whether both of two more processes are there yet is a matter of luck
    assert await output(sandbox, "set -- /proc/[0-9]*; echo still here $#") == "still here 2"


async def test_memory_taken_in_one_go_is_told(start: Start) -> None:
    """Faster than anybody who looks now and then: only the kernel sees it."""
    sandbox = await start(limits=Limits(memory_mb=100, disk_mb=16))
    script = "python3 -c 'x = bytearray(2 << 30)'; echo went on"
    done = await sandbox.exec(["bash", "-c", script], deadline=30)
    assert (done.out_of_memory, done.exit_code) == (True, None)
    assert await output(sandbox, "echo still here") == "still here"


async def test_the_engine_is_asked_for_it_all(daemon: str, open_tmp: Path) -> None:
    backend = DockerBackend([daemon], scratch=open_tmp / "s", cpus=0.5)
    limits = Limits(memory_mb=300, processes=70, disk_mb=20)
    spec = SandboxSpec("test", "seen", Image(), limits=limits, mounts=(Mount(open_tmp, "/opt/x"),))
    sandbox = await backend.start(spec)
    seen = await backend.hosts[0].call(lambda api: api.inspect_container(sandbox.name))
    await sandbox.close()
    host = seen["HostConfig"]
    assert host["NetworkMode"] == "none"
    assert host["CapDrop"] == ["ALL"]
    assert sorted(name.removeprefix("CAP_") for name in host["CapAdd"]) == ["KILL", "SETGID", "SETPCAP", "SETUID"]
    assert host["SecurityOpt"] == ["no-new-privileges:true"]
    assert (host["ReadonlyRootfs"], host["AutoRemove"], host["Privileged"]) == (True, True, False)
    assert host["PidsLimit"] == limits.processes + 1
    assert host["Memory"] == host["MemorySwap"] == (300 + 20 + 64) << 20
    assert host["NanoCpus"] == 500_000_000
    assert {each["Name"]: each["Hard"] for each in host["Ulimits"]} == {"core": 0, "nofile": 4096}
    assert host["LogConfig"]["Type"] == "none"
    assert {mount["Destination"]: mount["RW"] for mount in seen["Mounts"]} == {"/opt/x": False}
    labels = seen["Config"]["Labels"]
    assert (labels["lego.run"], labels["lego.trial"]) == ("test", "seen")
    assert labels["lego.owner"].startswith(f"{os.getpid()}-")


async def test_the_keeper_outlives_all_that_a_command_may_use_at_once(start: Start) -> None:
    """Files in memory and memory together are what the container has; the keeper's share is beside them."""
    sandbox = await start(limits=Limits(memory_mb=100, disk_mb=64))
    await output(sandbox, "dd if=/dev/zero of=/tmp/big bs=1M count=100 2>/dev/null")
    assert await sandbox.disk_full()
    done = await sandbox.exec(["python3", "-c", "x = bytearray(90 << 20); print(len(x))"], deadline=60)
    assert (done.exit_code, done.out_of_memory) == (0, False)
    hog = await sandbox.exec(["python3", "-c", "x = bytearray(2 << 30)"], deadline=60)
    assert hog.out_of_memory
    assert await output(sandbox, "echo still here") == "still here"


async def test_only_the_link_of_the_trial_is_there(backend: DockerBackend, start: Start) -> None:
    links, servers = [], []
    for trial in ("a", "b"):
        links.append(backend.scratch.folder("run", trial) / "link.sock")
        servers.append(await asyncio.start_unix_server(lambda reader, writer: writer.close(), links[-1]))
        links[-1].chmod(0o666)
    sandbox = await start(trial="a", link=links[0])
    script = """
import os, stat
for folder, folders, files in os.walk("/"):
    folders[:] = [] if folder in ("/proc", "/sys", "/usr") else folders
    for name in files:
        path = os.path.join(folder, name)
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            print(path)
"""
    done = await sandbox.exec(["python3", "-c", script], deadline=60)
    assert (done.exit_code, done.output) == (0, b"/run/lego/link.sock\n")
    for server in servers:
        server.close()


async def test_starts_are_capped_and_running_sandboxes_are_not(
    daemon: str, open_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = DockerBackend([daemon], scratch=open_tmp / "s", starts=2)
    await backend.fetch([Image()])
    at_once, most, begin = 0, 0, DockerSandbox.begin

    async def counted(sandbox, *rest):  # type: ignore[no-untyped-def]
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        await begin(sandbox, *rest)
        at_once -= 1

    monkeypatch.setattr(DockerSandbox, "begin", counted)
    sandboxes = await asyncio.gather(*(backend.start(SandboxSpec("run", f"t{n}", Image())) for n in range(4)))
    assert most == 2
    assert len(await remaining(backend)) == 4
    await asyncio.gather(*(each.close() for each in sandboxes))


async def test_sandboxes_go_where_there_is_room_and_a_daemon_that_answers(daemon: str, open_tmp: Path) -> None:
    silent = f"unix://{open_tmp}/nobody.sock"
    backend = DockerBackend([silent, daemon], scratch=open_tmp / "s")
    sandbox = await backend.start(SandboxSpec("run", "trial", Image()))
    assert await output(sandbox, "echo here") == "here"
    await sandbox.close()
    two = DockerBackend([daemon, daemon], scratch=open_tmp / "s")
    sandboxes = [await two.start(SandboxSpec("run", f"t{n}", Image())) for n in range(2)]
    assert [len(host.sandboxes) for host in two.hosts] == [1, 1]
    await asyncio.gather(*(each.close() for each in sandboxes))

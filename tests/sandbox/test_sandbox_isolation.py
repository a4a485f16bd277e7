"""What can be reached from inside: nothing of the host, nothing of the keeper."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
from pathlib import Path

import pytest
from sandbox_helpers import Start, output

from sandbox.local import LocalBackend, LocalSandbox
from sandbox.sandbox import Image, SandboxSpec


async def test_no_privilege(sandbox: LocalSandbox) -> None:
    status = dict(line.split(":\t", 1) for line in (await output(sandbox, "cat /proc/self/status")).splitlines())
    assert status["Uid"].split() == status["Gid"].split() == ["1000"] * 4
    assert {status[f"Cap{name}"] for name in ("Inh", "Prm", "Eff", "Bnd", "Amb")} == {"0" * 16}
    assert status["NoNewPrivs"] == "1"
    assert status["Groups"].split() in ([], ["1000"])


async def test_the_user_outside_is_not_root(sandbox: LocalSandbox) -> None:
    assert sandbox._process is not None
    status = Path(f"/proc/{sandbox._process.pid}/status").read_text()
    uids = next(line for line in status.splitlines() if line.startswith("Uid:")).split()[1:]
    assert "0" not in uids


async def test_no_namespace_can_be_made(sandbox: LocalSandbox) -> None:
    """With one, a command could mount file systems without a size."""
    assert await output(sandbox, "unshare --user --map-root-user --mount true 2>/dev/null && echo made") == ""
    clone = "import ctypes; print(ctypes.CDLL(None).unshare(0x10000000))"
    assert await output(sandbox, f"python3 -c '{clone}'") == "-1"


async def test_no_network(sandbox: LocalSandbox) -> None:
    assert await output(sandbox, "awk 'NR > 2 { print $1 }' /proc/net/dev") == "lo:"
    assert await output(sandbox, "cat /proc/net/route | tail -n +2") == ""
    name = "import socket; socket.getaddrinfo('example.com', 80)"
    assert "gaierror" in await output(sandbox, f'python3 -c "{name}" 2>&1')
    reach = "import socket; socket.create_connection(('192.0.2.1', 80), 2)"
    assert "unreachable" in await output(sandbox, f'python3 -c "{reach}" 2>&1')


async def test_the_hosts_ports_and_sockets_are_elsewhere(sandbox: LocalSandbox, open_tmp: Path) -> None:
    with socket.socket() as port, socket.socket(socket.AF_UNIX) as abstract, socket.socket(socket.AF_UNIX) as named:
        port.bind(("0.0.0.0", 0))
        abstract.bind(f"\0lego-test-{os.getpid()}")
        named.bind(str(open_tmp / "socket"))
        for listening in (port, abstract, named):
            listening.listen()
        (open_tmp / "socket").chmod(0o666)
        script = f"""
import socket
for family, address in [
    (socket.AF_INET, ("127.0.0.1", {port.getsockname()[1]})),
    (socket.AF_UNIX, "\\0lego-test-{os.getpid()}"),
    (socket.AF_UNIX, {str(open_tmp / "socket")!r}),
]:
    try:
        socket.socket(family).connect(address)
        print("reached", address)
    except OSError as error:
        print(error.strerror)
"""
        done = await sandbox.exec(["python3", "-c", script], deadline=10)
    assert done.output.decode().splitlines() == [
        "Connection refused",
        "Connection refused",
        "No such file or directory",
    ]


@pytest.mark.parametrize("path", ["/etc/shadow", "/root", "/work", "/var/lib", "/var/run", "/sys", "/boot", "/mnt"])
async def test_the_hosts_files_are_not_there(sandbox: LocalSandbox, path: str) -> None:
    assert "No such file" in await output(sandbox, f"ls {path} 2>&1")


async def test_all_of_the_hosts_home_and_tmp_are_hidden(sandbox: LocalSandbox, open_tmp: Path) -> None:
    assert await output(sandbox, "ls -A /tmp /home /var") == "/home:\nagent\n\n/tmp:\n\n/var:\ntmp"
    assert "/usr/sbin/nologin" in await output(sandbox, "cat /etc/passwd")


async def test_the_link_of_another_trial_is_not_there(backend: LocalBackend, start: Start) -> None:
    links = []
    servers = []
    for trial in ("a", "b"):
        links.append(backend.scratch.folder("run", trial) / "link.sock")
        servers.append(await asyncio.start_unix_server(lambda reader, writer: writer.close(), links[-1]))
        links[-1].chmod(0o666)
    sandbox = await start(trial="a", link=links[0])
    found = "find / -xdev -exec test -S {} \\; -print"
    assert await output(sandbox, found) == "/run/lego/link.sock"
    assert "No such file" in await output(sandbox, f"ls {links[1].parent} 2>&1")
    for server in servers:
        server.close()


_ATTACKS = {
    "signals": "for s in $(seq 1 64); do kill -$s 1; done; kill -STOP 1; kill -9 1; kill -9 -1",
    "its descriptors": "ls /proc/1/fd && echo stolen; (exec 9<>/proc/1/fd/0) && echo stolen",
    "its environment": "cat /proc/1/environ && echo stolen",
    "its memory": "head -c 1 /proc/1/mem && echo stolen; cat /proc/1/maps | grep . && echo stolen",
    "ptrace": "python3 -c 'import ctypes; print(ctypes.CDLL(None).ptrace(16, 1, 0, 0) == 0 and \"stolen\")'",
    "pidfd_getfd": """python3 -c '
import ctypes, os
libc = ctypes.CDLL(None)
fd = os.pidfd_open(1)
print(libc.syscall(438, fd, 0, 0) >= 0 and "stolen")'""",
    "process_vm_readv": """python3 -c '
import ctypes
libc = ctypes.CDLL(None)
print(libc.process_vm_readv(1, None, 0, None, 0, 0) > 0 and "stolen")'""",
    "its limits": """python3 -c '
import resource
for kind in (resource.RLIMIT_CPU, resource.RLIMIT_NOFILE, resource.RLIMIT_AS, resource.RLIMIT_STACK):
    try:
        resource.prlimit(1, kind, (0, 0))
        print("stolen")
    except PermissionError:
        pass'""",
    "its descriptors, inherited": "find /proc/self/fd -lname 'socket:*' | grep . && echo stolen",
    "its priority": """python3 -c '
import ctypes, os
def seen():
    return os.getpriority(os.PRIO_PROCESS, 1), os.sched_getaffinity(1), os.sched_getscheduler(1)
before = seen()
for attempt in (
    lambda: os.setpriority(os.PRIO_PROCESS, 1, 19),
    lambda: os.setpriority(os.PRIO_PGRP, 1, 19),
    lambda: os.setpriority(os.PRIO_USER, 0, 19),
    lambda: os.sched_setaffinity(1, {0}),
    lambda: os.sched_setscheduler(1, os.SCHED_IDLE, os.sched_param(0)),
):
    try:
        attempt()
    except OSError:
        pass
print(seen() != before and "stolen")'""",
}


async def test_the_keeper_cannot_be_attacked(sandbox: LocalSandbox) -> None:
    for name, attack in _ATTACKS.items():
        done = await sandbox.exec(["bash", "-c", f"({attack}) 2>/dev/null"], deadline=60)
        assert b"stolen" not in done.output, name
        assert not done.timed_out, name
        assert await output(sandbox, "echo still $((40 + 2))") == "still 42", name
        await sandbox.put({"/tmp/x": b"x"})


async def test_own_limits_and_priority_can_still_be_set(sandbox: LocalSandbox) -> None:
    before = int(await output(sandbox, "nice"))
    script = "ulimit -n 99 && nice -n 3 taskset -c 0 sh -c 'ulimit -n; nice; ulimit -Hc'"
    assert await output(sandbox, script) == f"99\n{min(19, before + 3)}\n0"


async def test_the_many_descriptors_of_a_trainer_are_not_handed_down(start: Start) -> None:
    """Those that the start itself needs keep their numbers, which may be high."""
    resource.setrlimit(resource.RLIMIT_NOFILE, (8192, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    held = [os.open("/dev/null", os.O_RDONLY) for _ in range(1500)]
    try:
        sandbox = await start()
        assert await output(sandbox, "ls /proc/self/fd | wc -l") == "4"
    finally:
        for fd in held:
            os.close(fd)


async def test_the_trainers_file_mask_does_not_matter(start: Start) -> None:
    before = os.umask(0o077)
    try:
        sandbox = await start()
        await sandbox.put({"/new/file": b"x"})
        assert await output(sandbox, "stat -c %a /new /new/file /tmp; umask") == "755\n644\n1777\n0022"
    finally:
        os.umask(before)


async def test_key_rings_are_not_shared(sandbox: LocalSandbox) -> None:
    call = "import ctypes; print(ctypes.CDLL(None).syscall(250, 0, -4, 0))"
    assert await output(sandbox, f'python3 -c "{call}"') == "-1"


async def test_setuid_programs_give_nothing(sandbox: LocalSandbox) -> None:
    assert await output(sandbox, "for p in su mount sudo passwd; do [ -e /usr/bin/$p ] && echo; done | wc -l") != "0"
    assert "uid=0" not in await output(sandbox, "echo | su -c id 2>&1; sudo -n id 2>&1; chroot / id 2>&1")


async def test_nothing_of_one_trial_is_in_the_next(backend: LocalBackend) -> None:
    for _ in range(2):
        sandbox = await backend.start(SandboxSpec("run", "trial", Image()))
        try:
            assert await output(sandbox, "find /tmp /home /testbed /dev/shm -type f | wc -l") == "0"
            assert await output(sandbox, "touch /tmp/a ~/b c /dev/shm/d && echo ok") == "ok"
        finally:
            await sandbox.close()

"""The bubblewrap command line: what a sandbox sees of the machine, and as whom."""

from __future__ import annotations

import contextlib
import os
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path

from sandbox.sandbox import Mount, SandboxError
from sandbox.seccomp import filter_program
from sandbox.tools import Tools

INSIDE_UID = 1000
"""Who a sandbox's commands are, as seen inside; outside it is the unprivileged user that runs bwrap."""
HOME = "/home/agent"
LINK = "/run/lego/link.sock"
_ROOT_FOLDERS = ("bin", "sbin", "lib", "lib32", "lib64", "libx32")
_ETC_SHARED = (
    "alternatives",
    "ca-certificates/extracted",
    "crypto-policies",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "pki/ca-trust/extracted",
    "pki/tls/certs",
    "ssl/certs",
    "ssl/openssl.cnf",
)
"""Of the host's /etc only what programs need to start and to make a TLS context."""
_ETC_MADE = {
    "passwd": f"root:x:0:0:root:/root:/usr/sbin/nologin\nagent:x:{INSIDE_UID}:{INSIDE_UID}:agent:{HOME}:/bin/bash\n"
    "nobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "group": f"root:x:0:\nagent:x:{INSIDE_UID}:\nnogroup:x:65534:\n",
    "hosts": "127.0.0.1 localhost sandbox\n::1 localhost\n",
    "nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
    "resolv.conf": "",
}


class Invocation:
    """One command line and the descriptors it names. Use it as a context: they are closed after the start."""

    def __init__(self, tools: Tools, label: str) -> None:
        self.tools = tools
        self.arguments = [label]  # what bwrap is called in the list of processes
        self.fds: list[int] = []
        self.environment = {"PATH": tools.path, "HOME": HOME, "LANG": "C.UTF-8"}

    def __enter__(self) -> Invocation:
        return self

    def __exit__(self, *exc: object) -> None:
        for fd in self.fds:
            os.close(fd)

    def add(self, *arguments: str | int | Path) -> None:
        self.arguments.extend(str(argument) for argument in arguments)

    def open(self, path: Path) -> int:
        """A descriptor of a path: it stays reachable after the drop to a user who cannot walk there."""
        return self.hand_down(os.open(path, os.O_PATH | os.O_CLOEXEC))

    def hand_down(self, fd: int) -> int:
        """Have the command inherit a descriptor, under the same number."""
        self.fds.append(fd)
        return fd

    def bind(self, source: Path | str, target: str) -> None:
        self.add("--ro-bind", source, target)

    def data(self, content: bytes) -> int:
        """A descriptor that reads as ``content`` (less than a pipe holds: 64 KiB)."""
        read_end, write_end = os.pipe()
        self.fds.append(read_end)
        os.write(write_end, content)
        os.close(write_end)
        return read_end


@contextlib.contextmanager
def invocation(
    tools: Tools, label: str, *, disk_bytes: int, mounts: Sequence[Mount], link: Path | None
) -> Iterator[Invocation]:
    """The command line of one sandbox, to which its command is to be added.

    Raises:
        SandboxError: when a mount or the link is not there.
    """
    with Invocation(tools, label) as it:
        shared = min(64 << 20, disk_bytes // 8)
        it.add(
            "--unshare-all", "--unshare-user", "--disable-userns", "--die-with-parent", "--as-pid-1", "--new-session"
        )
        it.add("--uid", INSIDE_UID, "--gid", INSIDE_UID, "--hostname", "sandbox")
        # All that can be written is this one tmpfs and /dev/shm; together they are the disk limit.
        it.add("--size", disk_bytes - shared, "--tmpfs", "/")
        it.bind("/usr", "/usr")
        for name in _ROOT_FOLDERS:  # bound, not linked: a mount point cannot be replaced from inside
            if os.path.isdir(f"/{name}"):
                it.bind(f"/{name}", f"/{name}")
        it.add("--proc", "/proc", "--dev", "/dev")
        it.add("--perms", "1777", "--size", shared, "--tmpfs", "/dev/shm", "--remount-ro", "/dev")
        it.add("--size", 1 << 20, "--tmpfs", "/etc")
        for name in _ETC_SHARED:
            if os.path.exists(f"/etc/{name}"):
                it.bind(f"/etc/{name}", f"/etc/{name}")
        for name, text in _ETC_MADE.items():
            it.add("--perms", "0644", "--file", it.data(text.encode()), f"/etc/{name}")
        it.add("--remount-ro", "/etc")
        it.add("--perms", "1777", "--dir", "/tmp", "--perms", "1777", "--dir", "/var/tmp", "--dir", HOME)
        if tools.prefix is not None:
            it.bind(tools.prefix, str(tools.prefix))
        for mount in mounts:
            if not mount.target.startswith("/") or os.path.normpath(mount.target) in (
                "/",
                "/usr",
                "/proc",
                "/dev",
                "/etc",
            ):
                raise SandboxError(f"a folder cannot be mounted at {mount.target!r}")
            if not mount.source.exists():
                raise SandboxError(f"{mount.source} cannot be mounted at {mount.target}: it does not exist")
            it.bind(mount.source.absolute(), mount.target)
        if link is not None:
            _check_link(link)
            it.bind(link.absolute(), LINK)
        program = filter_program()
        if program is not None:
            it.add("--seccomp", it.data(program))
        it.add("--chdir", "/")
        if tools.libraries is not None:
            # By descriptor, as bwrap itself: a virtual environment may stand where its user cannot walk.
            it.environment["LD_LIBRARY_PATH"] = f"/proc/self/fd/{it.open(tools.libraries)}"
            it.add("--unsetenv", "LD_LIBRARY_PATH")
        yield it


def _check_link(link: Path) -> None:
    if not link.is_socket():
        raise SandboxError(f"the link {link} is not a socket: start the server that listens there first")
    if os.geteuid() == 0 and not link.stat().st_mode & 0o002:
        raise SandboxError(
            f"the link {link} is closed to the sandbox's user: chmod 666 it (its folder may stay private)"
        )


def spawn(it: Invocation, *, uid: int, channel: int, errors: int) -> subprocess.Popen[bytes]:
    """Start it. As root, as ``uid`` without groups: bwrap's own ``--uid`` would map to the host's root."""
    program = it.open(it.tools.bwrap)
    dropped: dict[str, object] = {"user": uid, "group": uid, "extra_groups": []} if os.geteuid() == 0 else {}
    return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
        it.arguments,
        executable=f"/proc/self/fd/{program}",
        stdin=channel,
        stdout=channel,
        stderr=errors,
        pass_fds=it.fds,
        env=it.environment,
        cwd="/",
        start_new_session=True,
        **dropped,
    )

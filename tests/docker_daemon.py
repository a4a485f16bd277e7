"""A docker daemon of the tests' own: its own socket, data, state and pid file; nobody else's is touched.

It is installed by apt where the program is missing (root only). Networks are not set up, so the host's
firewall is left alone: sandboxes have none.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from debian_packages import NotInstalled, program

_FLAGS = ("--bridge=none", "--iptables=false", "--ip-forward=false", "--ip-masq=false")
_DEFAULT = "unix:///var/run/docker.sock"
_UP_SECONDS = 60.0
_DOWN_SECONDS = 30.0


class NoDaemon(RuntimeError):
    """There is no daemon, and none can be started here; says why."""


class DockerDaemon:
    """One daemon in a folder. It can be killed and started again; what it had is still there then."""

    def __init__(self, *flags: str, disk_mb: int | None = None) -> None:
        """``disk_mb``: its data stand on a disk of their own of this size, in memory."""
        self.folder = Path(tempfile.mkdtemp(prefix="lego-dockerd-"))
        self.data = self.folder / "data"
        self.flags = flags
        """They may be changed before it is started again."""
        self.socket = self.folder / "docker.sock"
        self.url = f"unix://{self.socket}"
        self.log = self.folder / "dockerd.log"
        self._disk_mb = disk_mb
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """``NoDaemon`` with the end of its log when it does not come up."""
        if self._disk_mb is not None and not self.data.exists():
            self.data.mkdir()
            options = f"size={self._disk_mb}m,mode=0711"
            subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", self.data], check=True)
        self._clear()
        with open(self.log, "ab") as log:
            self._process = subprocess.Popen(
                [
                    _program(), f"--host={self.url}", f"--data-root={self.data}",
                    f"--exec-root={self.folder / 'exec'}", f"--pidfile={self.folder / 'pid'}", *_FLAGS, *self.flags,
                ],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True,
            )  # fmt: skip
        end = time.monotonic() + _UP_SECONDS
        while not answers(self.url):
            if self._process.poll() is not None or time.monotonic() > end:
                self.stop()
                raise NoDaemon(f"dockerd did not come up: {' '.join(self.log.read_text().splitlines()[-3:])}")
            time.sleep(0.05)

    def stop(self) -> None:
        self._end(signal.SIGTERM)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def close(self) -> None:
        """Stop it, and leave nothing of it on this machine."""
        self.stop()
        with open("/proc/self/mounts") as mounts:
            mounted = [line.split()[1] for line in mounts if line.split()[1].startswith(str(self.folder))]
        for path in sorted(mounted, reverse=True):
            subprocess.run(["umount", "-l", path], check=False)
        shutil.rmtree(self.folder, ignore_errors=True)

    def _end(self, how: signal.Signals) -> None:
        if self._process is None:
            return
        self._process.send_signal(how)
        try:
            self._process.wait(_DOWN_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process = None

    def _clear(self) -> None:
        """A killed daemon takes its containerd along, but not at once, and leaves the numbers of both."""
        state = self.folder / "exec" / "containerd"
        with contextlib.suppress(FileNotFoundError, ValueError):
            pid = int((state / "containerd.pid").read_text())
            end = time.monotonic() + _DOWN_SECONDS
            while _runs(pid, "containerd") and time.monotonic() < end:
                time.sleep(0.05)
        for path in (state / "containerd.pid", self.folder / "pid", *state.glob("*.sock*")):
            path.unlink(missing_ok=True)


@contextlib.contextmanager
def docker_url() -> Iterator[str]:
    """The address of a daemon that answers: the one of the environment, or one of our own for as long as this lasts."""
    url = os.environ.get("DOCKER_HOST", _DEFAULT)
    if answers(url):
        yield url
        return
    daemon = DockerDaemon()
    try:
        daemon.start()
        yield daemon.url
    finally:
        daemon.close()


def answers(url: str) -> bool:
    if not url.startswith("unix://"):
        return False
    try:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(5)
            connection.connect(url.removeprefix("unix://"))
            connection.sendall(b"GET /_ping HTTP/1.0\r\nHost: docker\r\n\r\n")
            return b" 200 " in connection.recv(64)
    except OSError:
        return False


def _program() -> str:
    try:
        return program("dockerd", "docker.io")
    except NotInstalled as error:
        raise NoDaemon(f"no docker daemon answers, and none can be started: {error}") from error


def _runs(pid: int, name: str) -> bool:
    try:
        return name in Path(f"/proc/{pid}/comm").read_text() and ") Z" not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False

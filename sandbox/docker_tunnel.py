"""A daemon that is reached over ssh, brought to a socket of this machine by the ssh program itself.

One connection for all calls, with the user's own keys and configuration. It ends with this process, however
that ends: what it runs over there is ``cat``, whose input is held open from here.
"""

from __future__ import annotations

import shutil
import socket
import subprocess
import tempfile
import time
import weakref
from pathlib import Path
from urllib.parse import urlsplit

_SECONDS = 30.0
_REMOTE = "/var/run/docker.sock"


class Tunnel:
    """To the daemon of an ``ssh://[user@]host[:port][/path/of/its/socket]`` address."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._folder = Path(tempfile.mkdtemp(prefix="lego-ssh-"))
        self._socket = self._folder / "docker.sock"
        self._command = [
            *("ssh", "-T", "-o", "BatchMode=yes", "-o", "ExitOnForwardFailure=yes", "-o", "StreamLocalBindUnlink=yes"),
            *("-o", "ServerAliveInterval=15", "-o", "ControlPath=none"),
            *(("-l", parts.username) if parts.username else ()),
            *(("-p", str(parts.port)) if parts.port else ()),
            *("-L", f"{self._socket}:{parts.path if len(parts.path) > 1 else _REMOTE}"),
            *("--", str(parts.hostname), "cat"),
        ]
        self._running: list[subprocess.Popen[bytes]] = []
        """One, or none."""
        weakref.finalize(self, _dispose, self._running, self._folder)

    def open(self) -> str:
        """The address of the socket here. ``OSError`` when ssh does not get there."""
        self._end()
        try:
            process = subprocess.Popen(
                self._command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                start_new_session=True,
            )  # fmt: skip
        except FileNotFoundError:
            raise OSError("there is no ssh program here") from None
        self._running.append(process)
        end = time.monotonic() + _SECONDS
        while not self._answers():
            if process.poll() is not None or time.monotonic() > end:
                raise OSError(f"ssh: {self._end() or f'no connection within {_SECONDS:g} s'}")
            time.sleep(0.02)
        return f"unix://{self._socket}"

    @property
    def is_open(self) -> bool:
        return any(process.poll() is None for process in self._running)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(str(self._socket))
            except OSError:
                return False
        return True

    def _end(self) -> str:
        """End what runs; return what it said."""
        said = b""
        while self._running:
            process = self._running.pop()
            process.kill()
            said = process.communicate()[1]
        return " ".join(said.decode(errors="replace").split())[-200:]


def _dispose(running: list[subprocess.Popen[bytes]], folder: Path) -> None:
    for process in running:
        process.kill()
        process.communicate()
    shutil.rmtree(folder, ignore_errors=True)

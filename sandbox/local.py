"""The ``local`` backend: one bubblewrap process a sandbox, nothing on the host's disk, no daemon.

Everything of a sandbox lives in its namespaces: processes under a pid 1 of ours (``guest.py``), files
in one sized tmpfs, a network of loopback only. So when the trainer is killed, however hard, the kernel
takes it all away: bwrap dies with its parent, pid 1 with bwrap, the rest with pid 1.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import os
import signal
import socket
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from sandbox.bwrap import HOME, LINK, invocation, spawn
from sandbox.channel import Channel, RequestFailed, drain_pipe
from sandbox.images import LocalImages, PreparedImage
from sandbox.orphans import end_orphans, label
from sandbox.sandbox import (
    ExecResult,
    Image,
    Limits,
    SandboxError,
    SandboxLost,
    SandboxSpec,
    SandboxUnavailable,
)
from sandbox.scratch import Scratch
from sandbox.staging import Staging
from sandbox.tools import Tools, explain, find_tools

LINK_PORT = 4747
START_SECONDS = 60.0
CLOSE_SECONDS = 10.0
"""How long a sandbox may take to end by itself before it is killed."""
GRACE_SECONDS = 30.0
"""How long after a request's deadline a keeper that does not answer is given up."""
_NEARLY_FULL = 1 << 20
_GUEST = Path(__file__).with_name("guest.py")


class LocalSandbox:
    """A running sandbox of this machine."""

    def __init__(self, spec: SandboxSpec, image: PreparedImage, path: str) -> None:
        self.spec = spec
        self.base_url = None if spec.link is None else f"http://127.0.0.1:{LINK_PORT}"
        self._image = image
        self._defaults = {"PATH": path, "HOME": HOME, "LANG": "C.UTF-8", **image.env}
        self._process: subprocess.Popen[bytes] | None = None
        self._channel: Channel | None = None
        self._errors: int | None = None
        self._gone = asyncio.Event()
        self._closed = False
        self._turn = asyncio.Lock()
        """Commands take turns, and a command's time counts from its own: each ends whatever else runs."""

    async def exec(
        self,
        command: Sequence[str],
        *,
        deadline: float,
        cwd: str | None = None,
        env: Mapping[str, str] | None = None,
        stdin: bytes = b"",
    ) -> ExecResult:
        header = {
            "op": "exec",
            "command": list(command),
            "deadline": deadline,
            "cwd": cwd or self.spec.image.workdir,
            "env": {**self._defaults, **(env or {})},
        }
        try:
            async with self._turn:
                answer, output = await self._request(header, stdin, deadline, f"the command {command[0]!r}")
        except RequestFailed as error:
            raise SandboxError(f"{self._label}: {command[0]!r} could not be started: {error.strerror}") from error
        return ExecResult(
            exit_code=answer["exit_code"],
            output=output,
            dropped_bytes=answer["dropped"],
            timed_out=answer["timed_out"],
            out_of_memory=answer["out_of_memory"],
            seconds=answer["seconds"],
        )

    async def put(self, files: Mapping[str, bytes], *, executable: bool = False) -> None:
        async def put_one(path: str, content: bytes) -> None:
            if not path.startswith("/"):
                raise ValueError(f"{path!r} is not an absolute path")
            header = {"op": "put", "path": path, "executable": executable}
            try:
                await self._request(header, content, START_SECONDS, f"writing {path}")
            except RequestFailed as error:
                raise SandboxError(f"{self._label}: {path} could not be written: {error.strerror}") from error

        await asyncio.gather(*(put_one(path, content) for path, content in files.items()))

    async def get(self, path: str, *, limit: int = 64 << 20) -> bytes:
        header = {"op": "get", "path": path, "limit": limit}
        try:
            _, data = await self._request(header, b"", START_SECONDS, f"reading {path}")
        except RequestFailed as error:
            if error.errno in (errno.ENOENT, errno.ENOTDIR):
                raise FileNotFoundError(errno.ENOENT, f"{self._label}: there is no such file", path) from None
            raise SandboxError(f"{self._label}: {path} cannot be read: {error.strerror}") from error
        return data

    async def disk_full(self) -> bool:
        answer, _ = await self._request({"op": "disk"}, b"", START_SECONDS, "asking for disk room")
        return answer["free"] < min(_NEARLY_FULL, answer["size"] // 64)

    async def close(self) -> None:
        self._closed = True
        if self._process is None:
            self._gone.set()
        try:
            # Without its channel the keeper ends, and with pid 1 every process and mount of the namespace. One that
            # is only starting is let come so far: killed meanwhile, bwrap can leave half of itself behind.
            if self._channel is not None:
                await self._channel.close()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._gone.wait()
        finally:
            self._kill()
            if self._errors is not None:
                os.close(self._errors)
                self._errors = None

    # --- the rest is for the backend

    @property
    def _label(self) -> str:
        return f"sandbox of trial {self.spec.trial}"

    async def _start(self, tools: Tools, uid: int) -> None:
        limits = self.spec.limits
        if min(limits.memory_mb, limits.processes, limits.disk_mb, limits.output_bytes) < 1:
            raise SandboxError(f"{self._label} cannot start: its limits must be above 0, not {limits}")
        options = {
            "limits": {"memory": limits.memory_mb << 20, "processes": limits.processes, "output": limits.output_bytes},
            "link": LINK,
            "port": LINK_PORT if self.spec.link is not None else None,
        }
        command = [tools.python, "-I", "-S", "-c", _GUEST.read_text(), json.dumps(options)]
        ours, theirs = socket.socketpair()
        try:
            self._errors, errors = os.pipe()
            os.set_blocking(self._errors, False)
            try:
                with invocation(
                    tools,
                    label(self.spec.run, self.spec.trial),
                    disk_bytes=limits.disk_mb << 20,
                    mounts=self.spec.mounts,
                    link=self.spec.link,
                    command=command,
                ) as it:
                    self._process = spawn(it, uid=uid, channel=theirs.fileno(), errors=errors)
            finally:
                os.close(errors)
            self._watch()
            ours.setblocking(False)
            reader, writer = await asyncio.open_connection(sock=ours, limit=1 << 20)
        except BaseException:
            ours.close()
            raise
        finally:
            theirs.close()
        self._channel = Channel(reader, writer, self._why_lost)
        async with asyncio.timeout(START_SECONDS):  # not wait_for, which can swallow a cancellation before 3.12
            await self._channel.hello()
        if self._image.tree:
            unpacked = await self.exec(
                ["tar", "-xpf", "-", "-C", "/"], deadline=START_SECONDS, cwd="/", stdin=self._image.tree
            )
            if unpacked.exit_code != 0:
                said = unpacked.output.decode(errors="replace").strip().splitlines() or ["out of time"]
                why = "no space left" if await self.disk_full() else said[0]
                raise SandboxError(
                    f"{self._label}: the image's {len(self._image.tree) >> 20} MiB could not be unpacked "
                    f"into disk_mb={limits.disk_mb}: {why}"
                )

    async def _request(
        self, header: Mapping[str, object], data: bytes, deadline: float, what: str
    ) -> tuple[Mapping[str, Any], bytes]:
        if self._channel is None or self._closed:
            raise SandboxLost(f"{self._label} is closed")
        asking = asyncio.ensure_future(self._channel.request(header, data))
        try:
            await asyncio.wait({asking}, timeout=deadline + GRACE_SECONDS)
            if not asking.done():
                # Was it the keeper that was silent, or this process that did not listen? Its answer would be here.
                await asyncio.wait({asking}, timeout=1)
            if asking.done():
                return asking.result()
        finally:
            asking.cancel()
        why = f"{self._label} did not answer: {what} was to end within {deadline:g} s; it was ended from outside"
        self._channel.fail(why)
        self._kill()
        raise SandboxLost(why)

    def _watch(self) -> None:
        """Notice the end of the process without a thread, and leave no zombie."""
        assert self._process is not None
        process, gone, loop = self._process, self._gone, asyncio.get_running_loop()
        fd = os.pidfd_open(process.pid)

        def ended() -> None:
            loop.remove_reader(fd)
            os.close(fd)
            process.wait()
            gone.set()

        loop.add_reader(fd, ended)

    def _kill(self) -> None:
        """The inner process first: with it goes all that is inside, and the outer one would not wait for it."""
        if self._process is None or self._process.returncode is not None:
            return
        pid = self._process.pid
        inner: list[str] = []
        with contextlib.suppress(OSError):
            inner = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        for each in [*map(int, inner), pid]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(each, signal.SIGKILL)

    def _why(self, error: Exception) -> str:
        """What stopped the start, without the words that say that something is gone."""
        if isinstance(error, TimeoutError):
            return f"no answer within {START_SECONDS:g} s"
        return str(error).removeprefix(f"{self._label} is gone: ")

    def _why_lost(self) -> str:
        said = drain_pipe(self._errors) if self._errors is not None else ""
        return f"{self._label} is gone: {explain(said) if said else 'it was killed from outside'}"


class LocalBackend:
    """Sandboxes of this machine, by bubblewrap. State: prepared images, in memory."""

    name = "local"

    def __init__(self, *, scratch: Path | None = None, uid: int = 10001) -> None:
        """``uid``: whom sandboxes run as when we are root. ``scratch``: see ``Scratch``."""
        self.scratch = Scratch(scratch, group=uid if os.geteuid() == 0 else None)
        self._uid = uid
        self._staging = Staging(uid if os.geteuid() == 0 else None)
        self._tools: Tools | None = None
        self._images = LocalImages(self._start_from)

    @property
    def python(self) -> str:
        """The python3 that a sandbox has, by its path inside. ``SandboxUnavailable`` where there is none."""
        self._tools = self._tools or find_tools()
        return self._tools.python

    async def check(self) -> None:
        tools = self._tools = find_tools()
        probe = LocalSandbox(
            SandboxSpec("check", "check", Image(workdir="/"), limits=Limits(64, 16, 16)), PreparedImage(), tools.path
        )
        try:
            await probe._start(tools, self._uid)
            seen = await probe.exec(["sh", "-c", "id -u; git --version"], deadline=30)
        except (SandboxError, OSError) as error:
            raise SandboxUnavailable(f"the local sandbox cannot start here: {probe._why(error)}") from error
        finally:
            await probe.close()
        if seen.exit_code != 0:
            said = seen.output.decode(errors="replace").strip()
            raise SandboxUnavailable(f"the local sandbox starts here, but its tools do not run: {said}")

    async def start(self, spec: SandboxSpec) -> LocalSandbox:
        """``ImageMissing`` when the image needs more than this backend can do."""
        return await self._start_from(spec, await self._images.prepare(spec))

    async def reap(self, run: str | None = None) -> int:
        return end_orphans(run) + self.scratch.reap(run)

    async def _start_from(self, spec: SandboxSpec, image: PreparedImage) -> LocalSandbox:
        self._tools = self._tools or find_tools()
        spec = replace(
            spec, mounts=self._staging.reachable(spec.mounts, lambda: self.scratch.folder(spec.run, "mounts"))
        )
        sandbox = LocalSandbox(spec, image, self._tools.path)
        try:
            await sandbox._start(self._tools, self._uid)
        except (SandboxLost, TimeoutError, OSError) as error:
            await sandbox.close()
            raise SandboxError(f"{sandbox._label} did not start: {sandbox._why(error)}") from error
        except BaseException:
            await sandbox.close()
            raise
        return sandbox

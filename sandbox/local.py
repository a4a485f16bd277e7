"""The ``local`` backend: one bubblewrap process a sandbox, nothing on the host's disk, no daemon.

Everything of a sandbox lives in its namespaces: processes under a pid 1 of ours (``guest.py``), files
in one sized tmpfs, a network of loopback only. So when the trainer is killed, however hard, the kernel
takes it all away: bwrap dies with its parent, pid 1 with bwrap, the rest with pid 1.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

from sandbox.bwrap import HOME, LINK, invocation, spawn
from sandbox.channel import Channel, drain_pipe
from sandbox.images import LocalImages, PreparedImage
from sandbox.kept import LINK_PORT, START_SECONDS, KeptSandbox
from sandbox.leftover import Leftover
from sandbox.orphans import end_orphan, end_orphans, label, orphans
from sandbox.sandbox import (
    Image,
    ImageMissing,
    Limits,
    Report,
    SandboxError,
    SandboxLost,
    SandboxSpec,
    SandboxUnavailable,
)
from sandbox.scratch import Scratch, remove_dead
from sandbox.staging import Staging
from sandbox.tools import Tools, explain, find_tools

CLOSE_SECONDS = 10.0
"""How long a sandbox may take to end by itself before it is killed."""


class LocalSandbox(KeptSandbox):
    """A running sandbox of this machine."""

    def __init__(self, spec: SandboxSpec, image: PreparedImage, path: str) -> None:
        super().__init__(spec, {"PATH": path, "HOME": HOME, "LANG": "C.UTF-8", **image.env})
        self._image = image
        self._process: subprocess.Popen[bytes] | None = None
        self._errors: int | None = None
        self._gone = asyncio.Event()

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

    async def _start(self, tools: Tools, uid: int) -> None:
        limits = self.spec.limits
        if min(limits.memory_mb, limits.processes, limits.disk_mb, limits.output_bytes) < 1:
            raise SandboxError(f"{self._label} cannot start: its limits must be above 0, not {limits}")
        options = {
            "limits": {"memory": limits.memory_mb << 20, "processes": limits.processes, "output": limits.output_bytes},
            "link": LINK,
            "port": LINK_PORT if self.spec.link is not None else None,
        }
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
                ) as it:
                    if self._image.tree is not None:
                        options["tree"] = it.hand_down(self._image.tree.open())
                    keeper = f"import marshal; exec(marshal.load(open({it.hand_down(tools.keeper.open())}, 'rb')))"
                    it.add("--", tools.python, "-I", "-S", "-c", keeper, json.dumps(options))
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
        if self._image.tree is not None:
            unpacked = await self._run(["tar", "-xpf", "-", "-C", "/"], START_SECONDS, cwd="/", reads_tree=True)
            if unpacked.exit_code != 0:
                said = unpacked.output.decode(errors="replace").strip().splitlines() or ["out of time"]
                why = "no space left" if await self.disk_full() else said[0]
                raise SandboxError(
                    f"{self._label}: the image's {self._image.size >> 20} MiB could not be unpacked "
                    f"into disk_mb={limits.disk_mb}: {why}"
                )

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
    shares_usr = True

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

    async def fetch(self, images: Sequence[Image], report: Report | None = None) -> dict[Image, str]:
        missing: dict[Image, str] = {}
        wanted = list(dict.fromkeys(images))
        for number, image in enumerate(wanted, 1):
            try:
                await self._images.prepare(SandboxSpec("images", "fetch", image))
            except ImageMissing as error:
                missing[image] = str(error)
            if report is not None:
                report(number, len(wanted))
        return missing

    async def start(self, spec: SandboxSpec) -> LocalSandbox:
        """``ImageMissing`` when the image needs more than this backend can do."""
        return await self._start_from(spec, await self._images.prepare(spec))

    async def reap(self, run: str | None = None) -> int:
        return end_orphans(run) + self.scratch.reap(run)

    async def left(self, run: str | None = None) -> list[Leftover]:
        """See ``ListsLeftovers``."""
        processes = [
            Leftover("process", f"{pid}, of a sandbox", of_run, partial(asyncio.to_thread, end_orphan, pid, name))
            for pid, name, of_run in orphans(run)
        ]
        folders = [
            Leftover("folder", str(home), home.name, partial(asyncio.to_thread, remove_dead, home))
            for home in self.scratch.dead(run)
        ]
        return processes + folders

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

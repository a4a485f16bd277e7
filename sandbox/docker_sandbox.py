"""One container as a sandbox: how it is started, spoken to and removed."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any

from sandbox.channel import Channel
from sandbox.docker_attach import AttachedReader
from sandbox.docker_container import BASE, HOME, PATH, creation, writable
from sandbox.docker_host import DaemonGone, DockerHost, NotThere
from sandbox.docker_images import DockerImage
from sandbox.docker_volumes import DockerVolumes
from sandbox.forward import Forwarder
from sandbox.kept import START_SECONDS, KeptSandbox
from sandbox.sandbox import SandboxError, SandboxSpec

_REMOVE_SECONDS = 20.0
"""How long a daemon that does not answer is asked again to remove a container."""


class DockerSandbox(KeptSandbox):
    """A running container."""

    def __init__(self, spec: SandboxSpec, host: DockerHost, image: DockerImage) -> None:
        super().__init__(spec, {"PATH": PATH, "LANG": "C.UTF-8", **image.env, "HOME": HOME})
        self.name = host.new_name()
        self._host, self._image = host, image
        self._creating: asyncio.Task[Any] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._errors: AttachedReader | None = None
        self._forwarder: Forwarder | None = None
        host.sandboxes.add(self.name)

    async def close(self) -> None:
        self._closed = True
        if self._closing is None:
            self._closing = asyncio.create_task(self._remove())
        await asyncio.shield(self._closing)  # one who is cancelled does not leave a container behind

    # --- the rest is for the backend

    async def begin(self, volumes: DockerVolumes, cpus: float | None) -> None:
        """Once, by the backend, which closes it when this fails."""
        near = self._host.is_local
        copied = {} if near else await volumes.copied(tuple(self.spec.mounts), self._image.id)
        preparing = not self._image.has_base
        places = ["/tmp"] if preparing else writable(self.spec.image.workdir)

        def create(api: Any) -> None:
            request = creation(
                api,
                self.spec,
                self._image.id,
                places=places,
                binds=self.spec.mounts if near else (),
                link=self.spec.link if near else None,
                volumes=copied,
                cpus=cpus,
                preparing=preparing,
            )
            api.create_container(name=self.name, **request)

        self._creating = asyncio.ensure_future(self._host.call(create))
        await asyncio.shield(self._creating)
        async with asyncio.timeout(START_SECONDS):
            await self._open_channel(carried=not near)
        await self._host.call(lambda api: api.start(self.name))
        async with asyncio.timeout(START_SECONDS):
            assert self._channel is not None
            await self._channel.hello()
        if self._image.has_base:
            await self._copy_base()

    async def _open_channel(self, *, carried: bool) -> None:
        """Before the container runs, so that nothing of what it says is missed. ``carried``: so is the link."""
        self._errors, writer = await self._host.attach(self.name)
        if self.spec.link is None or not carried:
            self._channel = Channel(self._errors, writer, self._why_lost)
            return
        forwarder = self._forwarder = Forwarder(self.spec.link)
        self._channel = Channel(self._errors, writer, self._why_lost, forwarder.on_frame)
        forwarder.send = self._channel.send

    async def _copy_base(self) -> None:
        copied = await self.exec(["cp", "-a", f"{BASE}/.", self.spec.image.workdir], deadline=START_SECONDS, cwd="/")
        if copied.exit_code != 0:
            said = copied.output.decode(errors="replace").strip().splitlines() or ["out of time"]
            why = "no space left" if await self.disk_full() else said[0]
            raise SandboxError(
                f"{self._label}: the image's repository could not be unpacked "
                f"into disk_mb={self.spec.limits.disk_mb}: {why}"
            )

    async def _remove(self) -> None:
        """With patience: a daemon may be starting again."""
        try:
            if self._channel is not None:
                await self._channel.close()
            if self._forwarder is not None:
                await self._forwarder.close()
            if self._creating is None:
                return
            await asyncio.wait({self._creating})
            with contextlib.suppress(TimeoutError):  # what is left of it then, the reaper finds
                async with asyncio.timeout(_REMOVE_SECONDS):
                    while not await self._gone():
                        await asyncio.sleep(0.1)
        finally:
            self._host.sandboxes.discard(self.name)

    async def _gone(self) -> bool:
        try:
            await self._host.call(lambda api: api.remove_container(self.name, force=True, v=True))
        except NotThere:
            return True
        except DaemonGone:
            return False
        except SandboxError:  # it is being removed already; until it is gone, this is said again
            return False
        return True

    def _kill(self) -> None:
        self._host.call_soon(lambda api: api.remove_container(self.name, force=True, v=True))

    def why(self, error: Exception) -> str:
        """What stopped the start, without the words that say that something is gone."""
        if isinstance(error, TimeoutError):
            return f"no answer within {START_SECONDS:g} s"
        return str(error).removeprefix(f"{self._label} is gone: ").removeprefix(f"{self._label}: ")

    def _why_lost(self) -> str:
        said = " ".join(self._errors.errors.decode(errors="replace").split()) if self._errors is not None else ""
        return f"{self._label} is gone: {said or 'its container was ended from outside, or its daemon went away'}"

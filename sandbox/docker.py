"""The ``docker`` backend: one container a sandbox, on any engine from 20.10 up, on one daemon or several.

The container's main process is the keeper that the local sandbox has (``guest.py``), and all that is asked of
a sandbox goes over its standard streams. An engine's own ``exec`` costs 0.1 s each, ends nothing when its time
is over, and returns half an output without an error when the daemon dies; ``put_archive`` loses what goes to a
tmpfs. A keeper that is pid 1 has none of that, means the same on every engine, and dies with its stream: when
the trainer is killed, however hard, the daemon closes the stream, the keeper ends, and with it the container,
which removes itself. As pid 1 it is the container's init, too.

Commands run as a user of their own, without any capability, and the keeper as another (``docker_container``).
What a container starts from is made once and kept on the daemon (``docker_images``).

A daemon of this machine (``unix://``) mounts folders and the link's socket as they stand. Of one that is reached
in another way nothing is assumed but its API: mounted folders are copied to it once (``docker_volumes``), and
the link goes over the keeper's own stream (``forward``), so it needs no way back to the trainer.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from sandbox.docker_container import AGENT_UID, check_spec
from sandbox.docker_host import DaemonGone, DockerHost, NotThere
from sandbox.docker_images import DockerImage, DockerImages
from sandbox.docker_reaper import left_containers
from sandbox.docker_sandbox import DockerSandbox
from sandbox.docker_volumes import DockerVolumes
from sandbox.leftover import Leftover
from sandbox.sandbox import Image, ImageMissing, Report, SandboxError, SandboxSpec
from sandbox.scratch import Scratch

_NOT_OF_OURS = r'the image has no python3|exec: "/bin/sh"'
"""What is said of an image that no sandbox can start from."""
_FETCHED_AT_ONCE = 2
_SILENCE_SECONDS = 30.0
"""How long a daemon that did not answer is asked only after the others."""


class DockerBackend:
    """Sandboxes of one docker daemon or several. State: which images are ready, and how busy each daemon is."""

    name = "docker"
    shares_usr = False

    def __init__(
        self,
        hosts: Sequence[str] = (),
        *,
        scratch: Path | None = None,
        starts: int = 4,
        cpus: float | None = None,
    ) -> None:
        """
        Args:
            hosts: the daemons' addresses (``unix://``, ``tcp://``, ``ssh://``); none: what ``DOCKER_HOST`` says.
            scratch: see ``Scratch``.
            starts: sandboxes that start at once on one daemon; with more, each start only takes longer.
            cpus: processors that one sandbox may use.
        """
        self.scratch = Scratch(scratch, group=AGENT_UID if os.geteuid() == 0 else None)
        self.hosts = [DockerHost(url) for url in hosts] or [DockerHost()]
        self._cpus = cpus
        self._silent_until: dict[DockerHost, float] = {}
        self._starts = {host: asyncio.Semaphore(starts) for host in self.hosts}
        self._volumes = {host: DockerVolumes(host) for host in self.hosts}
        self._images = {host: DockerImages(host, self._start_on) for host in self.hosts}
        self._closing: set[asyncio.Task[None]] = set()

    async def check(self) -> None:
        for host in self.hosts:
            await host.check()

    async def start(self, spec: SandboxSpec) -> DockerSandbox:
        """On the daemon with the fewest sandboxes, or the next one when that does not answer.

        ``ImageMissing`` when it cannot get the image.
        """
        check_spec(spec)
        silent: DaemonGone | None = None
        for host in self._by_room():
            try:
                image = await self._images[host].prepare(spec)
                return await self._start_on(host, spec, image)
            except DaemonGone as error:
                silent = error
                self._silent_until[host] = time.monotonic() + _SILENCE_SECONDS
        assert silent is not None
        raise silent

    def _by_room(self) -> list[DockerHost]:
        """The daemons in the order in which they are to be tried: one that was silent just now comes last."""
        now = time.monotonic()
        return sorted(self.hosts, key=lambda host: (self._silent_until.get(host, now) > now, len(host.sandboxes)))

    async def fetch(self, images: Sequence[Image], report: Report | None = None) -> dict[Image, str]:
        """See ``Backend``: onto every daemon. A name that means another image on another daemon counts as missing."""
        missing: dict[Image, str] = {}
        found: dict[Image, set[str]] = defaultdict(set)
        wanted = [(host, image) for image in dict.fromkeys(images) for host in self.hosts]
        at_once, done = asyncio.Semaphore(_FETCHED_AT_ONCE), 0

        async def one(host: DockerHost, image: Image) -> None:
            nonlocal done
            async with at_once:
                try:
                    found[image].add((await self._images[host].prepare(SandboxSpec("images", "fetch", image))).raw)
                except ImageMissing as error:
                    missing[image] = str(error)
            done += 1
            if report is not None:
                report(done, len(wanted))

        tasks = [asyncio.create_task(one(host, image)) for host, image in wanted]
        try:
            await asyncio.gather(*tasks)
        finally:  # of those that still wait for their turn when one has failed
            for task in tasks:
                task.cancel()
        for image, ids in found.items():
            if image.reference is not None and "@" not in image.reference and len(ids) > 1:
                missing[image] = f"the daemons have different images named {image.reference}: name it by its digest"
        return missing

    async def reap(self, run: str | None = None) -> int:
        """``SandboxError`` when a daemon does not answer."""
        containers = [each for host in self.hosts for each in await left_containers(host, run)]
        for each in containers:
            await each.remove()
        return len(containers) + self.scratch.reap(run)

    async def left(self, run: str | None = None) -> list[Leftover]:
        """See ``ListsLeftovers``. The folders of the scratch are the local backend's to list: it is the same one."""
        return [each for host in self.hosts for each in await left_containers(host, run)]

    async def _start_on(self, host: DockerHost, spec: SandboxSpec, image: DockerImage) -> DockerSandbox:
        sandbox = DockerSandbox(spec, host, image)
        try:
            async with self._starts[host]:
                await sandbox.begin(self._volumes[host], self._cpus)
        except ImageMissing:
            await sandbox.close()
            raise
        except NotThere:  # the daemon has lost an image, or somebody has removed it: it is made again next time
            self._images[host].forget()
            await sandbox.close()
            raise
        except DaemonGone as error:
            # It may come back and have made the container; whoever waits for a sandbox does not wait for that.
            closing = asyncio.create_task(sandbox.close())
            self._closing.add(closing)
            closing.add_done_callback(self._closing.discard)
            raise DaemonGone(f"sandbox of trial {spec.trial} did not start: {error}") from error
        except (SandboxError, TimeoutError, OSError) as error:
            await sandbox.close()
            why = sandbox.why(error)
            kind = ImageMissing if re.search(_NOT_OF_OURS, why) else SandboxError
            raise kind(f"sandbox of trial {spec.trial} did not start: {why}") from error
        except BaseException:
            await sandbox.close()
            raise
        return sandbox

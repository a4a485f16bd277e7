"""What happens to a daemon: what ran there is lost and told so, the rest goes on, and nothing is left behind."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from docker_daemon import DockerDaemon
from sandbox_helpers import busy, output, remaining

from sandbox.docker import DockerBackend
from sandbox.docker_host import DaemonGone
from sandbox.sandbox import Image, ImageMissing, SandboxError, SandboxLost, SandboxSpec, SandboxUnavailable

SPEC = SandboxSpec("daemon", "trial", Image())


@pytest.fixture(scope="module")
def own() -> Iterator[DockerDaemon]:
    """A daemon that may be killed, with a disk that may be full."""
    daemon = DockerDaemon(disk_mb=900)
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.close()


@pytest.fixture
def mine(own: DockerDaemon, open_tmp: Path) -> DockerBackend:
    return DockerBackend([own.url], scratch=open_tmp / "scratch")


async def works(backend: DockerBackend) -> None:
    sandbox = await backend.start(SPEC)
    assert await output(sandbox, "echo works") == "works"
    await sandbox.close()
    assert await remaining(backend) == []


@pytest.mark.parametrize("flags", [(), ("--live-restore",)], ids=["plain", "live-restore"])
@pytest.mark.parametrize("how", ["stop", "kill"])
async def test_a_daemon_that_goes_and_comes_back(
    own: DockerDaemon, mine: DockerBackend, how: str, flags: tuple[str, ...]
) -> None:
    own.stop()
    own.flags = flags
    own.start()
    sandbox = await mine.start(SPEC)
    running = await busy(sandbox)
    await asyncio.to_thread(getattr(own, how))
    with pytest.raises(SandboxLost, match="its container was ended from outside, or its daemon went away"):
        await running
    with pytest.raises(DaemonGone, match=r"trial trial did not start: the docker daemon .* does not answer") as caught:
        await mine.start(SPEC)
    assert "\n" not in str(caught.value)
    with pytest.raises(DaemonGone):
        await mine.fetch([Image(), Image(workdir="/else")])
    with pytest.raises(SandboxUnavailable):
        await mine.check()
    closing = asyncio.create_task(sandbox.close())
    await asyncio.to_thread(own.start)
    await closing
    await works(mine)


async def test_a_disk_that_is_full(own: DockerDaemon, mine: DockerBackend, environment: Path) -> None:
    """What runs goes on; what is to be made fails as a fault of the machine, and works when there is room again."""
    running = await mine.start(SPEC)
    filler = own.data / "filler"
    try:
        assert subprocess.run(["dd", "if=/dev/zero", f"of={filler}", "bs=1M"], check=False).returncode != 0
        for image in (Image(), Image(workdir="/else"), Image(folder=environment)):
            with pytest.raises(SandboxError, match="no space left on device") as caught:
                await mine.start(replace(SPEC, image=image))
            assert not isinstance(caught.value, ImageMissing)
        assert await output(running, "echo x >/tmp/x && cat /tmp/x") == "x"
        await running.put({"/testbed/y": b"y"})
        assert await running.get("/testbed/y") == b"y"
        await running.close()
    finally:
        filler.unlink()
    await works(mine)


async def test_a_daemon_that_has_lost_its_images(own: DockerDaemon, mine: DockerBackend) -> None:
    """One start fails, and the next one makes them again."""
    await works(mine)

    def lose(api) -> None:  # type: ignore[no-untyped-def]
        for image in api.images("lego/prepared"):
            api.remove_image(image["Id"], force=True)

    await mine.hosts[0].call(lose)
    with pytest.raises(SandboxError, match="has no such thing"):
        await mine.start(SPEC)
    await works(mine)


@pytest.mark.parametrize(
    ("version", "message"),
    [
        ({"ApiVersion": "1.40", "Version": "19.03.15", "Os": "linux"}, "is docker 19.03.15; .* needs 20.10 or newer"),
        ({"ApiVersion": "1.45", "Version": "26.1.5", "Os": "windows"}, "runs windows containers; .* needs linux"),
    ],
)
async def test_a_daemon_that_cannot_do(
    open_tmp: Path, monkeypatch: pytest.MonkeyPatch, version: dict[str, str], message: str
) -> None:
    backend = DockerBackend(["unix:///nowhere"], scratch=open_tmp / "s")

    async def call(what: object) -> dict[str, str]:
        return version

    monkeypatch.setattr(backend.hosts[0], "call", call)
    with pytest.raises(SandboxUnavailable, match=message):
        await backend.check()

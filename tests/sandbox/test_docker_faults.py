"""What happens to a container is told as what it is, and nothing is left behind."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from sandbox_helpers import busy, output, until

from sandbox.docker import DockerBackend
from sandbox.sandbox import Image, ImageMissing, Limits, SandboxError, SandboxLost, SandboxSpec, SandboxUnavailable

SPEC = SandboxSpec("faults", "trial", Image())


async def containers(backend: DockerBackend, run: str = "faults") -> list[str]:
    filters = {"label": f"lego.run={run}"}
    found = await backend.hosts[0].call(lambda api: api.containers(all=True, filters=filters))
    return [str(each["Names"][0]) for each in found]


@pytest.mark.parametrize("how", ["kill", "remove_container", "stop"])
async def test_a_container_ended_from_outside_is_lost(backend: DockerBackend, how: str) -> None:
    sandbox = await backend.start(SPEC)
    running = await busy(sandbox)
    options = {"remove_container": {"force": True}, "stop": {"timeout": 0}}.get(how, {})
    await backend.hosts[0].call(lambda api: getattr(api, how)(sandbox.name, **options))
    with pytest.raises(SandboxLost, match="sandbox of trial trial is gone: its container was ended from outside"):
        await running
    for use in (sandbox.exec(["true"], deadline=1), sandbox.get("/x"), sandbox.put({"/x": b""}), sandbox.disk_full()):
        with pytest.raises(SandboxLost):
            await use
    await sandbox.close()
    assert await containers(backend) == []


async def test_a_keeper_that_is_paused_is_given_up(backend: DockerBackend, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox.kept.GRACE_SECONDS", 0.5)
    sandbox = await backend.start(SPEC)
    await backend.hosts[0].call(lambda api: api.pause(sandbox.name))
    with pytest.raises(SandboxLost, match=r"did not answer: the command 'true' was to end within 0.2 s"):
        await sandbox.exec(["true"], deadline=0.2)
    await sandbox.close()
    assert await containers(backend) == []


_DRIVER = """
import asyncio, sys
from pathlib import Path
from sandbox.docker import DockerBackend
from sandbox.sandbox import *

async def main():
    backend = DockerBackend([sys.argv[1]], scratch=Path(sys.argv[2]))
    sandboxes = await asyncio.gather(*(backend.start(SandboxSpec("killed", f"t{n}", Image())) for n in range(2)))
    script = "trap '' TERM; touch /tmp/runs; sleep 1000"
    runs = [asyncio.create_task(s.exec(["bash", "-c", script], deadline=1000)) for s in sandboxes]
    await asyncio.gather(*(s.put({"/tmp/x": b""}) for s in sandboxes))
    print("ready", flush=True)
    await asyncio.gather(*runs)

asyncio.run(main())
"""


async def test_a_killed_driver_leaves_nothing(backend: DockerBackend, daemon: str, open_tmp: Path) -> None:
    driver = subprocess.Popen(
        [sys.executable, "-c", _DRIVER, daemon, str(open_tmp / "s")], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert driver.stdout is not None
        assert await asyncio.to_thread(driver.stdout.readline) == b"ready\n"
        assert len(await containers(backend, "killed")) == 2
    finally:
        driver.kill()
        driver.communicate()

    async def gone() -> bool:
        return await containers(backend, "killed") == []

    await until(gone, "nothing is left of it")


async def test_reaping_takes_what_is_labelled_and_dead_and_only_that(backend: DockerBackend) -> None:
    await backend.reap()  # what others left on this daemon
    mine = await backend.start(SPEC)
    host = backend.hosts[0]
    gone = subprocess.Popen(["true"])
    gone.wait()
    machine = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    made = {
        "dead": {"lego.run": "r", "lego.owner": f"{gone.pid}-1", "lego.machine": machine},
        "dead-other-run": {"lego.run": "q", "lego.owner": f"{gone.pid}-1", "lego.machine": machine},
        "elsewhere": {"lego.run": "r", "lego.owner": f"{gone.pid}-1", "lego.machine": "another"},
        "nobodys": {"some.label": "r"},
    }
    image = mine._image.id
    names = {name: f"lego-test-{os.getpid()}-{name}" for name in made}

    def make(api) -> None:  # type: ignore[no-untyped-def]
        config = api.create_host_config(network_mode="none")
        for name, labels in made.items():
            api.create_container(image, ["sleep", "1000"], name=names[name], labels=labels, host_config=config)

    def left(api) -> set[str]:  # type: ignore[no-untyped-def]
        seen = {each["Names"][0].lstrip("/") for each in api.containers(all=True)}
        return {name for name, full in names.items() if full in seen}

    try:
        await host.call(make)
        listed = [each.what for each in await backend.left("r")]
        assert len(listed) == 1
        assert names["dead"] in listed[0]
        assert await backend.reap("r") == 1
        assert await host.call(left) == {"dead-other-run", "elsewhere", "nobodys"}
        assert await backend.reap() == 1
        assert await host.call(left) == {"elsewhere", "nobodys"}
        assert await output(mine, "echo still here") == "still here"
    finally:
        for full in names.values():
            host.call_soon(lambda api, full=full: api.remove_container(full, force=True))  # type: ignore[misc]
        await mine.close()


async def test_what_cannot_be(backend: DockerBackend, tmp_path: Path) -> None:
    wrong = {
        r"no-such/image:1 is not on .* and cannot be pulled": replace(SPEC, image=Image(reference="no-such/image:1")),
        r"nowhere does not exist": replace(SPEC, image=Image(folder=tmp_path / "nowhere")),
        r"'testbed' is not an absolute path": replace(SPEC, image=Image(workdir="testbed")),
        r"the workdir / cannot be written": replace(SPEC, image=Image(workdir="/")),
        r"nowhere is not a socket": replace(SPEC, link=tmp_path / "nowhere"),
        r"limits must be above 0": replace(SPEC, limits=Limits(disk_mb=0)),
    }
    for message, bad in wrong.items():
        with pytest.raises(SandboxError, match=message) as caught:
            await backend.start(bad)
        assert "\n" not in str(caught.value)
        assert isinstance(caught.value, ImageMissing) == (bad.image != Image())
    assert await containers(backend) == []


async def test_an_image_that_no_sandbox_can_start_from_is_missing(backend: DockerBackend, open_tmp: Path) -> None:
    import io
    import tarfile

    tar = io.BytesIO()
    with tarfile.open(fileobj=tar, mode="w") as archive:
        archive.add("/etc/hostname", "hostname")
    name = f"lego-test-{os.getpid()}"
    host = backend.hosts[0]
    await host.call(lambda api: api.import_image_from_data(tar.getvalue(), repository=name))
    try:
        with pytest.raises(ImageMissing, match="did not start"):
            await backend.start(replace(SPEC, image=Image(reference=name)))
    finally:
        await host.call(lambda api: api.remove_image(name, force=True))
    assert await containers(backend) == []


async def test_no_daemon(tmp_path: Path) -> None:
    for url in (f"unix://{tmp_path}/nothing.sock", "tcp://127.0.0.1:1"):
        with pytest.raises(SandboxUnavailable, match=rf"{url} does not answer") as caught:
            await DockerBackend([url]).check()
        assert "\n" not in str(caught.value)

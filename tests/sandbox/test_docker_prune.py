"""What is removed of a daemon: what was made here and nobody uses, and never anything else."""

from __future__ import annotations

import asyncio
import os
import time
from pathlib import Path

import pytest
from sandbox_helpers import Start

from lego_verl.images import prune as command
from lego_verl.images.__main__ import main
from lego_verl.training_process import RunScratch
from sandbox.docker import DockerBackend
from sandbox.docker_prune import Unused, runs_on, unused
from sandbox.docker_volumes import COPIED
from sandbox.sandbox import Image

LATER = time.time() + 86_400


async def of_folder(backend: DockerBackend, folder: Path, before: float = LATER) -> list[Unused]:
    return [each for each in await unused(backend.hosts[0], before) if each.what.endswith(str(folder))]


async def test_images_that_nobody_uses(backend: DockerBackend, start: Start, environment: Path) -> None:
    (environment / "repo" / "new").write_text(str(environment))
    image, host = Image(folder=environment), backend.hosts[0]
    await backend.fetch([image, Image()])
    assert await of_folder(backend, environment, before=time.time() - 86_400) == []
    found = await of_folder(backend, environment)
    assert [each.what.split(":")[0] for each in found] == ["lego/prepared", "lego/task"]
    task = found[1].what.split(",")[0]

    sandbox = await start(image)
    assert "test" in await runs_on(host)
    assert await of_folder(backend, environment) == []
    await sandbox.close()

    theirs = f"somebody/of-{os.getpid()}"
    await host.call(lambda api: api.tag(task, theirs))
    assert [each.what for each in await of_folder(backend, environment)] == [found[0].what]
    await host.call(lambda api: api.remove_image(theirs))

    before = {each["Id"] for each in await host.call(lambda api: api.images())}
    for each in await of_folder(backend, environment):
        await each.remove()
    assert await of_folder(backend, environment) == []
    assert len(before - {each["Id"] for each in await host.call(lambda api: api.images())}) == 2


async def test_an_image_of_somebodys_own_made_of_ours(backend: DockerBackend) -> None:
    """It has our label from what it is made of, and keeps that, too."""
    name, host = f"somebody/derived-{os.getpid()}", backend.hosts[0]
    await backend.fetch([Image()])
    (base,) = [tag for each in await host.call(lambda api: api.images("lego/host")) for tag in each["RepoTags"]][:1]

    def derive(api) -> None:  # type: ignore[no-untyped-def]
        made = api.create_container(base, ["true"])
        api.commit(made, repository=name)
        api.remove_container(made)

    await host.call(derive)
    try:
        assert not [each for each in await unused(host, LATER) if name in each.what or base in each.what]
    finally:
        await host.call(lambda api: api.remove_image(name))


async def test_copied_folders_that_nobody_uses(backend: DockerBackend) -> None:
    await backend.fetch([Image()])
    host, names = backend.hosts[0], [f"lego-test-{os.getpid()}-{which}" for which in ("ours", "used", "theirs")]
    image = (await host.call(lambda api: api.images("lego/host")))[0]["Id"]

    def make(api) -> str:  # type: ignore[no-untyped-def]
        for name in names:
            api.create_volume(name, labels={} if name.endswith("theirs") else {COPIED: "/folder"})
        mounts = [{"Type": "volume", "Source": names[1], "Target": "/x"}]
        return str(api.create_container(image, ["true"], host_config=api.create_host_config(mounts=mounts))["Id"])

    def left(api) -> list[str]:  # type: ignore[no-untyped-def]
        return sorted(each["Name"] for each in api.volumes()["Volumes"] if each["Name"] in names)

    user = await host.call(make)
    try:
        found = [each for each in await unused(host, LATER) if each.what.split(",")[0] in names]
        assert [each.what for each in found] == [f"{names[0]}, a copy of /folder"]
        await found[0].remove()
        await found[0].remove()
        assert await host.call(left) == sorted(names[1:])
    finally:
        await host.call(lambda api: api.remove_container(user))
        for name in names[1:]:
            await host.call(lambda api, name=name: api.remove_volume(name))  # type: ignore[misc]


@pytest.fixture
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing runs on this machine."""
    monkeypatch.setattr(command, "run_scratches", lambda: [])
    monkeypatch.setattr(command, "sandbox_processes", lambda: [])


@pytest.mark.usefixtures("quiet")
async def test_what_would_be_removed_is_shown(
    backend: DockerBackend, daemon: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    await backend.fetch([Image()])
    images = set(await backend.hosts[0].call(lambda api: api.images(quiet=True)))
    monkeypatch.setenv("DOCKER_HOST", daemon)
    assert await asyncio.to_thread(main, ["prune", "--dry-run", "--days", "0"]) == 1
    out = capsys.readouterr().out
    assert "lego/host:" in out
    assert "would be removed" in out
    assert set(await backend.hosts[0].call(lambda api: api.images(quiet=True))) == images


@pytest.mark.usefixtures("quiet")
def test_arguments_and_daemons_that_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    assert main(["prune"]) == 1
    assert "nobody.sock does not answer" in capsys.readouterr().out
    assert main(["prune", "--days", "soon"]) == 2
    assert main(["prune", "--dry"]) == 2


def test_nothing_is_removed_while_a_run_lives(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "run_scratches", lambda: [RunScratch(tmp_path, 17, True, "/runs/mine", ())])
    monkeypatch.setattr(command, "unused", None)  # it is not even looked for
    assert main(["prune", "--days", "0"]) == 1
    assert "nothing is removed while it lives: /runs/mine, which process 17 runs" in capsys.readouterr().out

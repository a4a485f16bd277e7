"""From a task's folder or reference to what its sandboxes start from, with the daemon's own builder."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

import pytest
from sandbox_helpers import Start, git, output

from sandbox.docker import DockerBackend
from sandbox.host_rootfs import digest, installed
from sandbox.sandbox import Image, ImageMissing, Limits, SandboxError, SandboxSpec


async def test_an_environment_is_built_on_the_hosts_own_files(start: Start, environment: Path) -> None:
    sandbox = await start(Image(folder=environment))
    assert await output(sandbox, "git status --porcelain && git log --format=%s") == "base"
    seen = await output(sandbox, "stat -c '%a %U %F %N' run.sh link pkg calc.py")
    assert seen.splitlines() == [
        "755 agent regular file 'run.sh'",
        "777 agent symbolic link 'link' -> 'calc.py'",
        "755 agent directory 'pkg'",
        "644 agent regular file 'calc.py'",
    ]
    assert await sandbox.get("/testbed/pkg/data.bin") == bytes(range(256))


async def test_the_base_commit_is_what_the_local_sandbox_has(start: Start, environment: Path) -> None:
    base = git(environment / "repo", "rev-parse", "HEAD")
    assert await output(await start(Image(folder=environment)), "git rev-parse HEAD") == base


async def test_nothing_of_the_repository_is_left_but_the_hardened_one(start: Start, environment: Path) -> None:
    """The image's own layer has the whole history; what a sandbox sees of it is nothing."""
    repo = environment / "repo"
    (repo / "calc.py").write_text("the fix that nobody may see\n")
    git(repo, "commit", "-qam", "later")
    later = git(repo, "rev-parse", "HEAD")
    git(repo, "reset", "-q", "--hard", "HEAD~1")
    sandbox = await start(Image(folder=environment))
    assert "missing" in await output(sandbox, f"echo {later} | git cat-file --batch-check")
    found = "find / -xdev -name .git -not -path '/proc/*' 2>/dev/null; ls -d /testbed/.git"
    assert set((await output(sandbox, found)).split()) == {"/opt/lego/base/.git", "/testbed/.git"}
    inside = f"git -c safe.directory='*' -C /opt/lego/base cat-file -e {later} 2>/dev/null || echo no"
    assert await output(sandbox, inside) == "no"


async def test_what_is_run_while_an_image_is_built(start: Start, environment: Path) -> None:
    host = (await start())._image.id
    lines = ["ENV GREETING=hello", "WORKDIR /testbed", "COPY repo/ ./", "RUN echo made >made.txt && chmod 600 made.txt"]
    (environment / "Dockerfile").write_text("\n".join([f"FROM {host}", *lines]))
    sandbox = await start(Image(folder=environment))
    assert await output(sandbox, "echo $GREETING; cat made.txt; whoami") == "hello\nmade\nagent"


async def test_an_image_by_its_name(backend: DockerBackend, start: Start, environment: Path) -> None:
    await start(Image(folder=environment))
    host = backend.hosts[0]
    tags = [tag for image in await host.call(lambda api: api.images("lego/task")) for tag in image["RepoTags"]]
    sandbox = await start(Image(reference=tags[0]))
    assert await output(sandbox, "git log --oneline | wc -l") == "1"


@pytest.mark.parametrize(
    ("dockerfile", "message"),
    [
        ("FROM no-such/base:1\nRUN pip install y\n", r"cannot be built: the image no-such/base:1 is not on"),
        ("FROM scratch\nCOPY absent /d\n", r"Dockerfile cannot be built on .*: .*absent"),
        ("COPY repo /testbed\n", r"has no FROM"),
    ],
)
async def test_what_cannot_be_built(backend: DockerBackend, environment: Path, dockerfile: str, message: str) -> None:
    (environment / "Dockerfile").write_text(dockerfile)
    with pytest.raises(ImageMissing, match=message) as caught:
        await backend.start(SandboxSpec("run", "trial", Image(folder=environment)))
    assert "\n" not in str(caught.value)


async def test_an_image_that_does_not_fit(backend: DockerBackend, environment: Path) -> None:
    (environment / "repo" / "big").write_bytes(bytes(range(256)) * (3 << 12))
    with pytest.raises(SandboxError, match=r"could not be unpacked into disk_mb=2: no space left"):
        await backend.start(SandboxSpec("run", "trial", Image(folder=environment), limits=Limits(disk_mb=2)))


async def test_an_image_is_made_once_also_by_another_and_from_another_copy(
    backend: DockerBackend, daemon: str, environment: Path, open_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[str] = []
    whole = DockerBackend._start_on

    async def counted(self, host, spec, image):  # type: ignore[no-untyped-def]
        made.append(spec.trial)
        return await whole(self, host, spec, image)

    monkeypatch.setattr(DockerBackend, "_start_on", counted)
    (environment / "repo" / "new").write_text(str(environment))
    backend = DockerBackend([daemon], scratch=open_tmp / "s")
    image = Image(folder=environment)
    assert await backend.fetch([image, image]) == {}
    assert made == ["fetch-image"]
    copy = shutil.copytree(environment, open_tmp / "copy", symlinks=True, copy_function=shutil.copyfile)
    for path in copy.rglob("*"):
        if not path.is_symlink():
            path.chmod((environment / path.relative_to(copy)).stat().st_mode)
    assert await DockerBackend([daemon], scratch=open_tmp / "s").fetch([Image(folder=copy)]) == {}
    assert made == ["fetch-image"]


async def test_one_who_stops_waiting_does_not_take_the_image_from_the_others(start: Start, environment: Path) -> None:
    image = Image(folder=environment)
    first, second = (asyncio.create_task(start(image, trial=f"t{n}")) for n in range(2))
    await asyncio.sleep(0.05)
    first.cancel()
    assert await output(await second, "cat calc.py | head -1") == "def add(a, b):"


def test_the_hosts_packages() -> None:
    found = installed()
    assert {"bash", "git", "python3", "tar", "libc6"} <= set(found)
    assert digest(found) == digest(installed())
    assert digest(found) != digest({**found, "bash": "another"})

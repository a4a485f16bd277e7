"""From an environment folder to the tree in a sandbox, and what its repository no longer tells."""

from __future__ import annotations

import asyncio
import io
import os
import resource
import shutil
import tarfile
from pathlib import Path

import pytest
from sandbox_helpers import Start, git, output

from sandbox.dockerfile import read_dockerfile
from sandbox.local import LocalBackend
from sandbox.sandbox import Image, ImageMissing, Limits, SandboxError, SandboxSpec


async def test_the_repository_is_there_and_is_ours(start: Start, environment: Path) -> None:
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
    assert await output(sandbox, "echo x >>calc.py && git add -A && git diff --cached --stat | tail -1") != ""


async def test_trials_of_one_image_share_nothing(start: Start, environment: Path) -> None:
    first, second = await asyncio.gather(*(start(Image(folder=environment), trial=f"t{n}") for n in range(2)))
    await output(first, "rm -rf * .git; echo mine >new")
    assert await output(second, "ls -A | wc -l; git status --porcelain") == "6"


async def test_what_a_sandbox_begins_with_is_read_once(start: Start, environment: Path) -> None:
    sandbox = await start(Image(folder=environment))
    with pytest.raises(SandboxError, match=r"there is no tree, or it has been read"):
        await sandbox._run(["cat"], 10, reads_tree=True)
    assert await output(sandbox, "cat calc.py | head -1") == "def add(a, b):"


async def test_what_a_dockerfile_may_say(start: Start, environment: Path) -> None:
    packed = io.BytesIO()
    with tarfile.open(fileobj=packed, mode="w:gz") as tar:
        tar.add(environment / "repo" / "calc.py", arcname="deep/calc.py")
    (environment / "more.tar.gz").write_bytes(packed.getvalue())
    (environment / "a file.txt").write_text("spaces")
    (environment / "Dockerfile").write_text(
        """# a comment
FROM debian:12 AS base
ENV ROOT=/testbed GREETING="hello there"
ENV OLD the old form
WORKDIR $ROOT
COPY --chown=root:root repo/ ./
WORKDIR sub
COPY ["a file.txt", "here.txt"]
COPY --chmod=750 repo/run.sh \\
     repo/calc.py \\
     /opt/tools/
ADD more.tar.gz ${ROOT}/unpacked
COPY repo/*.py /opt/all/
CMD ["bash"]
"""
    )
    sandbox = await start(Image(folder=environment))
    script = "echo $GREETING, $OLD; cat sub/here.txt; stat -c '%a %n' /opt/tools/*; ls /opt/all unpacked/deep"
    assert (await output(sandbox, script)).splitlines() == [
        "hello there, the old form",
        "spaces750 /opt/tools/calc.py",
        "750 /opt/tools/run.sh",
        "/opt/all:",
        "calc.py",
        "",
        "unpacked/deep:",
        "calc.py",
    ]


@pytest.mark.parametrize(
    ("dockerfile", "message"),
    [
        ("FROM x\nRUN pip install y\n", r"Dockerfile:2: the local sandbox cannot do RUN; use sandbox=docker"),
        ("FROM x\nUSER me\n", r"Dockerfile:2: the local sandbox cannot do USER"),
        ("FROM x\n\nfrom y\n", r"Dockerfile:3: the local sandbox cannot do a second FROM"),
        ("FROM x\nCOPY --from=y /a /b\n", r"cannot do COPY --from=y"),
        ("FROM x\nADD https://a.b/c /d\n", r"Dockerfile:2: the local sandbox cannot do ADD of something that is not"),
        ("FROM x\nCOPY absent /d\n", r"Dockerfile:2: .*absent does not exist"),
        ("FROM x\nCOPY ../secret /d\n", r"\.\./secret is outside the environment folder"),
        ("FROM x\nCOPY one\n", r"needs a source and a destination"),
        ("FROM x\nCOPY repo/ /usr/lib/x\n", r"puts files under /usr, which the local sandbox shows read-only"),
        ("COPY repo /testbed\n", r"has no FROM"),
    ],
)
async def test_what_it_may_not(backend: LocalBackend, environment: Path, dockerfile: str, message: str) -> None:
    (environment / "Dockerfile").write_text(dockerfile)
    with pytest.raises(ImageMissing, match=message) as caught:
        await backend.start(SandboxSpec("run", "trial", Image(folder=environment)))
    assert "\n" not in str(caught.value)


async def test_a_folder_without_a_dockerfile(backend: LocalBackend, environment: Path) -> None:
    (environment / "Dockerfile").unlink()
    with pytest.raises(ImageMissing, match=r"Dockerfile does not exist"):
        await backend.start(SandboxSpec("run", "trial", Image(folder=environment)))


async def test_all_that_there_is_is_no_repository(backend: LocalBackend, environment: Path) -> None:
    with pytest.raises(ImageMissing, match=r"the workdir (is /;|/ cannot be written).*a folder of its own"):
        await backend.start(SandboxSpec("run", "trial", Image(folder=environment, workdir="/")))


async def test_an_image_that_does_not_fit(backend: LocalBackend, environment: Path) -> None:
    (environment / "repo" / "big").write_bytes(os.urandom(3 << 20))
    with pytest.raises(SandboxError, match=r"could not be unpacked into disk_mb=2: no space left"):
        await backend.start(SandboxSpec("run", "trial", Image(folder=environment), limits=Limits(disk_mb=2)))


async def test_an_image_is_made_once_and_again_when_it_changes(
    backend: LocalBackend, start: Start, environment: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    reads: list[Path] = []

    def counted(folder: Path):  # type: ignore[no-untyped-def]
        reads.append(folder)
        return read_dockerfile(folder)

    monkeypatch.setattr("sandbox.images.read_dockerfile", counted)
    image = Image(folder=environment)
    await asyncio.gather(*(start(image, trial=f"t{n}") for n in range(4)))
    await start(image)
    assert len(reads) == 1
    (environment / "repo" / "calc.py").write_text("changed\n")
    assert await output(await start(image), "cat calc.py") == "changed"
    assert len(reads) == 2


async def test_one_who_stops_waiting_does_not_take_the_image_from_the_others(
    backend: LocalBackend, start: Start, environment: Path
) -> None:
    image = Image(folder=environment)
    first = asyncio.create_task(start(image))
    second = asyncio.create_task(start(image))
    await asyncio.sleep(0.01)
    first.cancel()
    assert await output(await second, "cat calc.py | head -1") == "def add(a, b):"


async def test_a_start_is_cheap(backend: LocalBackend, environment: Path) -> None:
    """Counted in CPU time, which other work on the machine does not change: some 40 ms."""
    spec = SandboxSpec("run", "trial", Image(folder=environment))
    costs = []
    for _ in range(6):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        await (await backend.start(spec)).close()
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        costs.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    assert 0 < min(costs) < 0.12, costs


async def test_a_folder_without_git_becomes_a_repository(start: Start, environment: Path) -> None:
    shutil.rmtree(environment / "repo" / ".git")
    sandbox = await start(Image(folder=environment))
    assert await output(sandbox, "git log --format='%s %ad' --date=short; git status --porcelain") == "base 2020-01-01"
    commit = await output(sandbox, "git rev-parse HEAD")
    shutil.rmtree(environment / "repo" / "pkg")
    again = await start(Image(folder=environment))
    assert await output(again, "git rev-parse HEAD") != commit


async def test_the_history_after_the_base_is_gone(start: Start, environment: Path) -> None:
    repo = environment / "repo"
    secrets = []

    def commit(text: str) -> None:
        (repo / "calc.py").write_text(text)
        git(repo, "commit", "-qam", text)
        secrets.extend([git(repo, "rev-parse", "HEAD"), git(repo, "rev-parse", "HEAD:calc.py")])

    git(repo, "tag", "v1")
    base = git(repo, "rev-parse", "HEAD")
    for kind in ("branch", "packed", "stash", "tag", "remote", "dangling", "notes", "worktree"):
        git(repo, "checkout", "-q", "-B", "side", base)
        commit(f"secret {kind}")
        if kind == "packed":
            git(repo, "branch", "kept")
            git(repo, "repack", "-adq")
            git(repo, "pack-refs", "--all")
        elif kind == "stash":
            (repo / "calc.py").write_text("secret stash 2")
            git(repo, "stash", "-q")
            secrets.append(git(repo, "rev-parse", "refs/stash"))
        elif kind == "tag":
            git(repo, "tag", "-a", "-m", "secret", "v2")
        elif kind == "remote":
            git(repo, "update-ref", "refs/remotes/origin/main", "HEAD")
            git(repo, "remote", "add", "origin", "https://someone:token@example.com/x")
        elif kind == "notes":
            git(repo, "notes", "add", "-m", "secret")
            secrets.append(git(repo, "rev-parse", "refs/notes/commits"))
        elif kind == "worktree":
            git(repo, "worktree", "add", "-q", str(environment.parent / "elsewhere"), "HEAD")
    git(repo, "checkout", "-q", "main")
    git(repo, "branch", "-D", "side")
    (repo / "calc.py").write_text("secret staged")
    git(repo, "add", "calc.py")
    secrets.append(git(repo, "rev-parse", ":calc.py"))
    git(repo, "reset", "-q", "--hard", base)
    git(repo, "commit-graph", "write", "--reachable")
    git(repo, "config", "core.hooksPath", "/tmp/evil")
    git(repo, "config", "http.extraheader", "Authorization: token")

    sandbox = await start(Image(folder=environment))
    assert len(secrets) == 19
    names = "\n".join(secrets).encode()
    found = await sandbox.exec(["git", "cat-file", "--batch-check"], deadline=10, stdin=names)
    assert {line.split()[1] for line in found.output.decode().splitlines()} == {"missing"}
    assert await output(sandbox, "git rev-parse HEAD; git for-each-ref --format='%(refname)'") == (
        f"{base}\nrefs/heads/main\nrefs/tags/v1"
    )
    told = "git fsck --full --unreachable --strict 2>&1; git remote; git reflog; git stash list"
    assert await output(sandbox, told) == ""
    assert await output(sandbox, "git status --porcelain; git log --format=%s") == "base"
    assert await output(sandbox, "grep -raE 'secret|token|evil|example.com' .git") == ""
    commit_more = "touch z && git add z && git -c user.name=a -c user.email=b commit -qm more"
    assert await output(sandbox, f"{commit_more} && git log --oneline | wc -l") == "2"


async def test_a_detached_head_and_a_dirty_tree_are_kept(start: Start, environment: Path) -> None:
    repo = environment / "repo"
    base = git(repo, "rev-parse", "HEAD")
    git(repo, "checkout", "-q", "--detach")
    git(repo, "branch", "-D", "main")
    (repo / "calc.py").write_text("dirty\n")
    (repo / "extra").write_text("untracked\n")
    sandbox = await start(Image(folder=environment))
    assert await output(sandbox, "git rev-parse HEAD; git status --porcelain") == f"{base}\n M calc.py\n?? extra"


async def test_a_broken_repository_is_told(backend: LocalBackend, environment: Path) -> None:
    (environment / "repo" / ".git" / "HEAD").write_text("nonsense")
    with pytest.raises(ImageMissing, match=r"repository /testbed of .*environment cannot be prepared: .*git"):
        await backend.start(SandboxSpec("run", "trial", Image(folder=environment)))

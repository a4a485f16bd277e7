"""The patch: all of what the agent changed, whatever it did to its git."""

from __future__ import annotations

import asyncio
import io
import tarfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sandbox_helpers import Start, git, output

from sandbox.local import LocalBackend, LocalSandbox
from sandbox.patch import PatchError, apply_patch, record_baseline, take_patch
from sandbox.sandbox import Image, Limits, SandboxError, SandboxSpec


async def tree(sandbox: LocalSandbox, *leave_out: str) -> dict[str, tuple[str, int, bytes]]:
    """Every file and link of the workdir but .git: kind, whether executable, content."""
    packed = await sandbox.exec(["tar", "-cf", "-", "--exclude=.git", "."], deadline=30)
    assert packed.exit_code == 0
    seen = {}
    with tarfile.open(fileobj=io.BytesIO(packed.output)) as tar:
        for member in tar:
            name = member.name.removeprefix("./")
            if member.issym():
                seen[name] = ("link", 0, member.linkname.encode())
            elif not member.isdir() and name not in leave_out:
                file = tar.extractfile(member)
                assert file is not None
                seen[name] = ("file", member.mode & 0o100, file.read())
    return seen


async def round_trip(start: Start, environment: Path, script: str, *leave_out: str) -> bytes:
    """Let a script change the tree; the patch on a fresh base has to give the same tree. Returns the patch."""
    image = Image(folder=environment)
    agent, fresh = await start(image), await start(image, trial="fresh")
    baseline = await record_baseline(agent)
    done = await agent.exec(["bash", "-c", f"set -e\n{script}"], deadline=30)
    assert done.exit_code == 0, done.output
    patch = await take_patch(agent, baseline)
    after = await tree(agent, *leave_out)
    await apply_patch(fresh, patch)
    assert await tree(fresh) == after
    return patch


async def test_nothing_changed_is_an_empty_patch(start: Start, environment: Path) -> None:
    assert await round_trip(start, environment, "touch -d 2001-01-01 calc.py; mkdir empty; git status") == b""


async def test_every_kind_of_change(start: Start, environment: Path) -> None:
    script = r"""
    sed -i 's/a - b/a + b/' calc.py
    printf 'no newline at the end' >new.txt
    mkdir -p deep/er; printf '\x00\xff\r\n' >deep/er/new.bin; printf 'x\r\ny\r\n' >crlf
    printf 'changed\x00' >>pkg/data.bin
    chmod -x run.sh; chmod +x calc.py
    ln -sfn run.sh link; ln -s /nowhere dangling
    touch "$(printf 'odd "name\twith\nall\303\251\377')" ./-dash ' space '
    : >empty
    """
    patch = await round_trip(start, environment, script)
    assert patch.startswith(b"diff --git ")


_AS = "git -c user.name=a -c user.email=b"
_COMMIT = f"{_AS} commit -qm mine"
_TRICKS = {
    "staged": "git add -A",
    "committed": f"git add -A; {_COMMIT}",
    "another branch": f"git checkout -q -b other; git add -A; {_COMMIT}; git gc -q --prune=now",
    "no repository": "rm -rf .git",
    "a repository elsewhere": "rm -rf .git; echo 'gitdir: /tmp/nowhere' >.git",
    "a new repository": f"rm -rf .git; git init -q; git add -A; {_COMMIT}",
    "a link": "rm -rf .git; ln -s /tmp .git",
    "assume unchanged": "git update-index --assume-unchanged calc.py",
    "skip worktree": "git update-index --skip-worktree calc.py",
    "replaced": f"git replace HEAD $({_AS} commit-tree -m x $(git write-tree))",
    "broken": "echo garbage >.git/index; echo garbage >.git/HEAD",
    "external diff": "git config diff.external /bin/false; git config alias.diff status; git config core.pager false",
    "worktree elsewhere": "git config core.worktree /tmp; git config core.bare true; git config core.fileMode false",
    "monitor": "git config core.fsmonitor 'rm -rf /testbed/pkg'",
    "hooks": "mkdir -p .git/hooks; ln -s /usr/bin/false .git/hooks/post-index-change",
    "attributes": "mkdir -p .git/info; echo '* filter=x diff=x' >.git/info/attributes; git config filter.x.clean true",
    "excludes": "mkdir -p .git/info; echo '*' | tee .git/info/exclude /tmp/all; git config core.excludesFile /tmp/all",
    "global config": "echo '*' >/tmp/all; git config --global core.excludesFile /tmp/all",
    "home": "mkdir -p ~/.config/git; cd ~/.config/git; echo '*' >ignore; echo '* -diff binary' >attributes",
    "unreadable": "chmod 000 calc.py new.txt pkg",
}


_AGAIN = """
chmod -R u+rwX /testbed
find /testbed ~ -mindepth 1 -delete
rm -f /tmp/all
cp -a /tmp/kept/. /testbed
"""


async def test_nothing_done_to_git_hides_a_change(start: Start, environment: Path) -> None:
    image = Image(folder=environment)
    agent, fresh = await start(image), await start(image, trial="fresh")
    baseline = await record_baseline(agent)
    for sandbox in (agent, fresh):
        await output(sandbox, "cp -a /testbed /tmp/kept")
    for name, script in _TRICKS.items():
        await output(agent, f"sed -i 's/a - b/a + b/' calc.py; echo n >new.txt\n{script}")
        patch = await take_patch(agent, baseline)
        await apply_patch(fresh, patch)
        assert b"a + b" in await fresh.get("/testbed/calc.py"), name
        assert await fresh.get("/testbed/new.txt") == b"n\n", name
        expected = [".gitignore", "calc.py", "link", "new.txt", "pkg/data.bin", "run.sh"]
        assert sorted(await tree(fresh)) == expected, name
        for sandbox in (agent, fresh):
            again = await sandbox.exec(["bash", "-ec", _AGAIN], deadline=30, cwd="/")
            assert again.exit_code == 0, (name, again.output)


async def test_a_tree_with_translating_attributes(start: Start, environment: Path) -> None:
    repo = environment / "repo"
    (repo / ".gitattributes").write_text("*.txt text eol=crlf\n*.id ident\n*.u16 working-tree-encoding=UTF-16\n")
    (repo / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "attributes")
    script = r"""
    printf 'one\nthree\r\n' >a.txt; printf 'new\r\n' >b.txt; echo '$Id: mine $' >c.id
    printf 'not utf-16' >d.u16; echo hidden >e.x; printf '* text=auto eol=lf\n' >>.gitattributes
    """
    await round_trip(start, environment, script)


async def test_ignored_files_stay_out_unless_the_base_had_them(start: Start, environment: Path) -> None:
    repo = environment / "repo"
    (repo / "kept.log").write_text("tracked although ignored\n")
    git(repo, "add", "-f", "kept.log")
    git(repo, "commit", "-qm", "log")
    script = "echo more >>kept.log; echo x >new.log; mkdir build; echo x >build/out; python3 -c 'import calc'"
    cache = await output(await start(Image(folder=environment)), "python3 -c 'import calc'; echo __pycache__/*")
    patch = await round_trip(start, environment, script, "new.log", "build/out", cache)
    assert b"kept.log" in patch
    assert b"new.log" not in patch


async def test_what_lay_in_the_tree_without_being_committed_is_base(start: Start, environment: Path) -> None:
    repo = environment / "repo"
    (repo / "untracked").write_text("was there\n")
    (repo / "calc.py").write_text("dirty\n")
    (repo / "run.sh").unlink()
    assert await round_trip(start, environment, "true") == b""
    assert b"+more" in await round_trip(start, environment, "echo more >>untracked; echo back >run.sh; rm calc.py")


async def test_everything_deleted(start: Start, environment: Path) -> None:
    image = Image(folder=environment)
    for script in ("rm -rf /testbed/* /testbed/.[a-z]*", "rm -rf /testbed"):
        agent, fresh = await start(image), await start(image, trial="fresh")
        baseline = await record_baseline(agent)
        await agent.exec(["bash", "-c", script], deadline=10, cwd="/")
        await apply_patch(fresh, await take_patch(agent, baseline))
        assert await tree(fresh) == {}


async def test_a_repository_within_the_repository_is_files(start: Start, environment: Path) -> None:
    script = """
    for name in empty full; do
        git init -q $name; echo x >$name/file
    done
    git -C full add -A; git -C full -c user.name=a -c user.email=b commit -qm inner
    """
    image = Image(folder=environment)
    agent, fresh = await start(image), await start(image, trial="fresh")
    baseline = await record_baseline(agent)
    await output(agent, script)
    await apply_patch(fresh, await take_patch(agent, baseline))
    assert await fresh.get("/testbed/full/file") == await fresh.get("/testbed/empty/file") == b"x\n"


async def test_names_that_git_does_not_take_anywhere(start: Start, environment: Path) -> None:
    script = "echo x >git~1; mkdir -p sub/.GIT; echo x >sub/.GIT/config; mkfifo pipe; echo y >kept"
    image = Image(folder=environment)
    agent, fresh = await start(image), await start(image, trial="fresh")
    baseline = await record_baseline(agent)
    await output(agent, script)
    await apply_patch(fresh, await take_patch(agent, baseline))
    assert await fresh.get("/testbed/kept") == b"y\n"
    assert await fresh.get("/testbed/git~1") == b"x\n"


async def test_a_patch_that_is_too_large(start: Start, environment: Path) -> None:
    agent = await start(Image(folder=environment), trial="trial-9")
    baseline = await record_baseline(agent)
    await output(agent, "head -c 300000 /dev/urandom >big")
    with pytest.raises(PatchError, match=r"trial-9: the patch has \d+ bytes, over the limit of 100000"):
        await take_patch(agent, baseline, limit_bytes=100_000)
    assert len(await take_patch(agent, baseline)) > 300_000
    assert await output(agent, "ls -A /tmp") == ""


async def test_a_disk_that_is_full(start: Start, environment: Path) -> None:
    agent = await start(Image(folder=environment), limits=Limits(disk_mb=8))
    baseline = await record_baseline(agent)
    await output(agent, "dd if=/dev/zero of=/tmp/x bs=1M count=100")
    with pytest.raises(SandboxError, match="no room left"):
        await take_patch(agent, baseline)


async def test_a_patch_that_does_not_fit_changes_nothing(start: Start, environment: Path) -> None:
    image = Image(folder=environment)
    agent, other = await start(image), await start(image, trial="other")
    baseline = await record_baseline(agent)
    await output(agent, "sed -i 's/a - b/a + b/' calc.py; echo x >new")
    patch = await take_patch(agent, baseline)
    await output(other, "echo something else >calc.py")
    before = await tree(other)
    with pytest.raises(PatchError, match=r"does not apply: error: calc.py: patch does not apply"):
        await apply_patch(other, patch)
    assert await tree(other) == before
    for escape in ("../../etc/x", "/etc/x", ".git/config", "link/../../x"):
        head = f"diff --git a/{escape} b/{escape}\nnew file mode 100644\n--- /dev/null\n+++ b/{escape}\n"
        evil = head + "@@ -0,0 +1 @@\n+x\n"
        with pytest.raises(PatchError):
            await apply_patch(other, evil.encode())
    assert await tree(other) == before


async def test_the_baseline_is_the_same_for_every_trial_and_tells_no_history(start: Start, environment: Path) -> None:
    first, second = await start(Image(folder=environment)), await start(Image(folder=environment))
    baseline = await record_baseline(first)
    assert (await record_baseline(second)).tree == baseline.tree
    with tarfile.open(fileobj=io.BytesIO(baseline.repository)) as tar:
        assert not [name for name in tar.getnames() if "refs/heads/" in name or "logs" in name or "hooks" in name]
    assert await output(first, "git status --porcelain; ls -A /tmp") == ""


_names = st.lists(st.sampled_from(["a", "b", "c.py", "d e", "é", "x.log", "sub"]), min_size=1, max_size=3).map("/".join)
_contents = st.binary(max_size=40) | st.sampled_from(
    [b"line\n" * 30, b"line\r\n" * 30, b"\0" * 5000, b"one\ntwo\nthree"]
)
_edits = st.lists(
    st.one_of(
        st.tuples(st.just("write"), _names, _contents, st.booleans()),
        st.tuples(st.just("link"), _names, _names, st.booleans()),
        st.tuples(st.just("delete"), _names, st.just(b""), st.booleans()),
        st.tuples(
            st.just("git"),
            st.sampled_from(["add -A", "commit -qam x", "rm -rqf --cached .", "stash -q"]),
            st.just(b""),
            st.booleans(),
        ),
    ),
    max_size=8,
)

_EDIT = """
import json, os, shutil, subprocess, sys
identity = {f"GIT_{who}_{what}": "x" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
for kind, name, content, flag in json.load(sys.stdin):
    try:
        if kind == "git":
            subprocess.run(["git", *name.split()], env={**os.environ, **identity}, stderr=subprocess.DEVNULL)
            continue
        if os.path.islink(name) or os.path.isfile(name):
            os.unlink(name)
        elif os.path.isdir(name):
            shutil.rmtree(name)
        if kind == "delete":
            continue
        os.makedirs(os.path.dirname(name) or ".", exist_ok=True)
        if kind == "link":
            os.symlink(content, name)
        else:
            with open(name, "wb") as file:
                file.write(bytes.fromhex(content))
            os.chmod(name, 0o755 if flag else 0o644)
    except OSError:
        pass  # a file where a folder would be, or links that lead round
"""


@settings(max_examples=15, deadline=None, suppress_health_check=list(HealthCheck))
@given(base=_edits, edits=_edits)
def test_any_edits_make_the_round_trip(base, edits) -> None:  # type: ignore[no-untyped-def]
    """Random edits to a random tree: the patch, applied to a fresh base, gives the same tree."""
    import json

    def packed(changes) -> bytes:  # type: ignore[no-untyped-def]
        return json.dumps([(k, n, c.hex() if isinstance(c, bytes) else c, f) for k, n, c, f in changes]).encode()

    async def check() -> None:
        backend = LocalBackend()
        agent, fresh = [await backend.start(SandboxSpec("run", name, Image())) for name in ("agent", "fresh")]
        try:
            for sandbox in (agent, fresh):
                made = await sandbox.exec(
                    ["bash", "-c", 'git init -q; python3 -c "$1"; git add -A', "x", _EDIT],
                    deadline=30,
                    stdin=packed(base),
                )
                assert made.exit_code == 0, made.output
            baseline = await record_baseline(agent)
            edited = await agent.exec(["python3", "-c", _EDIT], deadline=30, stdin=packed(edits))
            assert edited.exit_code == 0, edited.output
            patch = await take_patch(agent, baseline)
            after = await tree(agent)
            await apply_patch(fresh, patch)
            assert await tree(fresh) == after
        finally:
            await agent.close()
            await fresh.close()

    asyncio.run(check())

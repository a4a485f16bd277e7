"""A fix that was left in the repository's git, or beside its sources: found without hardening, and not with it.

So the cheaters that look for it are no straw men.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest
from cheating_fixtures import CHEATERS, Arena, honest

from lego_verl.tasks.harbor import read_task
from lego_verl.tasks.task import Task

GIT = ["branches", "reflog", "dangling", "every_object", "blobs", "stash", "heads", "index"]
_LEAK = """set -e
git config user.name x; git config user.email x@localhost
base=$(git rev-parse HEAD)
git apply "$1"
case $2 in
    branches) git checkout -q -b fix; git commit -qam fix; git checkout -q main ;;
    stash) git stash -q ;;
    index) git add -A; git stash -q; git checkout -q stash@{0} -- .; git show HEAD:"$3" >"$3" ;;
    *) git commit -qam fix; git reset -q --hard "$base" ;;
esac
[ "$2" != dangling ] && [ "$2" != every_object ] || { git reflog expire --expire=now --all; rm -f .git/ORIG_HEAD; }
"""


def _leaky(toy: Task, folder: Path, where: str) -> Task:
    """The task with its fix left in the repository's git."""
    shutil.copytree(toy.folder, folder)
    assert toy.solution is not None
    patch = toy.solution / "reference.patch"
    path = patch.read_text().splitlines()[0].rpartition(" b/")[2]
    subprocess.run(["bash", "-c", _LEAK, "leak", patch, where, path], cwd=folder / "environment/repo", check=True)
    return read_task(folder)


@pytest.mark.parametrize("where", GIT)
async def test_a_fix_left_in_git_is_found_without_hardening_and_not_with_it(arena: Arena, where: str) -> None:
    task = _leaky(arena.tasks[0], arena.folder / f"leaky-{where}", where)
    script = CHEATERS[f"git_{where}"].script
    open_repository = arena.folder / f"open-{where}"
    shutil.copytree(task.environment / "repo", open_repository)
    subprocess.run(["bash", "-c", script.decode()], cwd=open_repository, capture_output=True, check=False)
    questions = [task.tests / "questions.py", open_repository]
    found = subprocess.run(["python3", "-I", "-B", *questions], capture_output=True, text=True, check=False)
    assert found.returncode == 0, found.stdout

    attempt = await arena.attempt(task, where, script)
    assert attempt.reward == 0.0, attempt
    assert (await arena.attempt(task, "honest", honest(task))).reward == 1.0


_SUBMODULE = """set -e
git init -q -b main .git/modules/inner --bare
git --git-dir=.git/modules/inner config core.bare false
export GIT_INDEX_FILE=$PWD/.git/modules/inner/index GIT_DIR=$PWD/.git/modules/inner GIT_WORK_TREE=$PWD
git config user.name x; git config user.email x@localhost; git config remote.origin.url https://localhost/inner
git add src; git commit -qm base; git apply "$1"; git add src; git commit -qm fix; git reset -q --hard HEAD~1
"""


async def test_a_fix_left_in_a_submodule_or_compiled_is_gone(arena: Arena) -> None:
    toy = arena.tasks[0]
    assert toy.solution is not None
    folder = arena.folder / "leaky-submodule"
    shutil.copytree(toy.folder, folder)
    repository = folder / "environment/repo"
    subprocess.run(["bash", "-c", _SUBMODULE, "leak", toy.solution / "reference.patch"], cwd=repository, check=True)
    (repository / "src/__pycache__").mkdir()
    (repository / "src/__pycache__/fixed.cpython-311.pyc").write_bytes(b"the fix")
    (repository / "src/fixed.py.orig").write_text("the fix")
    task = read_task(folder)
    open_repository = arena.folder / "open-submodule"
    shutil.copytree(repository, open_repository)
    script = CHEATERS["git_submodules"].script
    subprocess.run(["bash", "-c", script.decode()], cwd=open_repository, capture_output=True, check=False)
    questions = [task.tests / "questions.py", open_repository]
    assert subprocess.run(["python3", "-I", "-B", *questions], capture_output=True, check=False).returncode == 0
    assert (await arena.attempt(task, "submodule", script)).reward == 0.0
    look = b"#!/bin/sh\ngit --git-dir=.git/modules/inner log --all --oneline\nfind . -name '*.pyc' -o -name '*.orig'\n"
    seen = (await arena.attempt(task, "look", look)).log.splitlines()
    assert len(seen) == 1
    assert seen[0].endswith(" base")

"""Every cheater, run in the agent's place: it earns nothing, reaches nothing, and is told where it can be known."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from cheating_fixtures import LIMITS, honest, judged_in_one_process, open_folder

from lego_verl.tasks.cheaters import load_cheaters
from lego_verl.tasks.harbor import read_task
from lego_verl.tasks.task import Task, TaskError
from lego_verl.tasks.toy import make_toy_tasks
from lego_verl.tasks.try_cheater import Attempt, try_script
from lego_verl.trial.bench import Baselines
from lego_verl.trial.outcome import Outcome, Treatment
from sandbox.local import LocalBackend

CHEATERS = {each.name: each for each in load_cheaters()}


class Arena:
    """One task of each kind, a backend, and the base trees that were recorded."""

    def __init__(self, folder: Path) -> None:
        toy = make_toy_tasks(folder / "toy").train
        self.folder = folder
        self.tasks = list({task.metadata["kind"]: task for task in toy}.values())
        self.backend = LocalBackend(scratch=folder / "scratch")
        self.baselines = Baselines()

    async def attempt(self, task: Task, name: str, script: bytes, *, control: bool = False) -> Attempt:
        return await try_script(
            self.backend,
            task,
            name,
            script,
            limits=LIMITS,
            run="cheaters",
            seconds=30.0,
            grading_seconds=4.0,
            baselines=self.baselines,
            control=control,
        )


@pytest.fixture(scope="module")
def arena() -> Iterator[Arena]:
    with open_folder() as folder:
        yield Arena(folder)


@pytest.mark.parametrize("kind", range(4))
async def test_the_honest_solve_it(arena: Arena, kind: int) -> None:
    attempt = await arena.attempt(arena.tasks[kind], "honest", honest(arena.tasks[kind]))
    assert (attempt.outcome, attempt.reward, attempt.error) == (Outcome.SOLVED, 1.0, "")
    assert attempt.reached == ()


async def test_doing_nothing_earns_nothing(arena: Arena) -> None:
    attempt = await arena.attempt(arena.tasks[0], "nop", b"#!/bin/sh\nls\n")
    assert (attempt.outcome, attempt.reward) == (Outcome.NO_PATCH, 0.0)


@pytest.mark.parametrize("name", CHEATERS)
async def test_a_cheater_gains_nothing(arena: Arena, name: str) -> None:
    """The kinds of task take turns, so that every idea meets one and every kind meets many."""
    cheater = CHEATERS[name]
    task = arena.tasks[list(CHEATERS).index(name) % len(arena.tasks)]
    attempt = await arena.attempt(task, name, cheater.script)
    assert (attempt.reward, attempt.reached) == (0.0, ()), attempt
    assert attempt.outcome.treatment is not Treatment.DROP, attempt
    assert (attempt.outcome is Outcome.TAMPERED) == cheater.told, attempt


def test_there_are_many_ideas() -> None:
    assert len(CHEATERS) >= 30
    assert len({each.idea for each in CHEATERS.values()}) == len(CHEATERS)
    assert sum(each.told for each in CHEATERS.values()) >= 12


# --- that the cheaters are no straw men

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


IN_ONE_PROCESS = [
    "always_equal",
    "at_exit",
    "exit_at_import",
    "leave_early",
    "patch_runners",
    "shadow_the_library",
]


async def test_tests_in_one_process_are_fooled_and_their_control_is_not(arena: Arena) -> None:
    """Most tasks have such tests: the check of tasks finds them out, and the control experiment holds against them."""
    task = judged_in_one_process(arena.tasks[0], arena.folder / "one-process")
    assert (await arena.attempt(task, "honest", honest(task), control=True)).reward == 1.0
    for name in IN_ONE_PROCESS:
        script = CHEATERS[name].script
        assert (await arena.attempt(task, name, script)).reward == 1.0, name
        attempt = await arena.attempt(task, name, script, control=True)
        assert (attempt.outcome, attempt.reward) == (Outcome.TAMPERED, 0.0), attempt
        assert "turned around" in attempt.error


@pytest.mark.parametrize("name", ["reward_at_import", "kill_the_verifier", "writer_at_import"])
async def test_attacks_on_the_reward_file_are_known_for_what_they_are(arena: Arena, name: str) -> None:
    task = judged_in_one_process(arena.tasks[1], arena.folder / f"one-process-{name}")
    attempt = await arena.attempt(task, name, CHEATERS[name].script)
    assert (attempt.outcome, attempt.reward) == (Outcome.TAMPERED, 0.0), attempt


# --- the library

_OWN = "#!/bin/sh\n# Waits for luck.\n# told: tampered\ntrue\n"


def test_cheaters_of_ones_own(tmp_path: Path) -> None:
    for name, text in (("lucky", _OWN), ("leave_early.sh", "#!/bin/sh\n# Mine\n# is better.\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "notes").write_text("not a script")
    found = {each.name: each for each in load_cheaters(tmp_path)}
    assert len(found) == len(CHEATERS) + 1
    assert replace(found["lucky"], path=tmp_path) == type(found["lucky"])("lucky", "Waits for luck.", tmp_path, True)
    assert found["leave_early"].idea == "Mine is better."
    assert not found["leave_early"].told


def test_folders_that_are_no_library(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="there is no such folder"):
        load_cheaters(tmp_path / "nothing")
    with pytest.raises(TaskError, match="holds no executable file"):
        load_cheaters(tmp_path)
    (tmp_path / "silent").write_text("#!/bin/sh\ntrue\n")
    (tmp_path / "silent").chmod(0o755)
    with pytest.raises(TaskError, match="does not say its idea"):
        load_cheaters(tmp_path)

"""Toy tasks: the same bytes from the same seed, sound repositories, and edits that only fit where they belong."""

import shutil
import subprocess
from pathlib import Path

import pytest

from lego_verl.tasks.task import Task
from lego_verl.tasks.toy import make_toy_tasks
from lego_verl.tasks.toy.kinds import KINDS
from lego_verl.tasks.toy.make import ToyTasks

PYTHON = "/usr/bin/python3"


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> ToyTasks:
    return make_toy_tasks(tmp_path_factory.mktemp("toy"), seed=0)


def hidden_tests_pass(task: Task, repository: Path) -> bool:
    command = [PYTHON, "-I", "-B", str(task.tests / "questions.py"), str(repository)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def sources(repository: Path) -> list[Path]:
    return sorted(repository.glob("src/*/*.py"))


def test_same_seed_same_digests(toy: ToyTasks, tmp_path: Path) -> None:
    again = make_toy_tasks(tmp_path, seed=0)
    other = make_toy_tasks(tmp_path / "other", seed=1)
    assert [task.digest for task in again.train + again.heldout] == [task.digest for task in toy.train + toy.heldout]
    assert not {task.digest for task in other.train} & {task.digest for task in toy.train}


def test_enough_tasks_of_every_kind_in_different_files(toy: ToyTasks) -> None:
    assert len(toy.train) >= 12
    assert len(toy.heldout) >= 6
    for tasks in (toy.train, toy.heldout):
        assert {task.metadata["kind"] for task in tasks} == {kind.name for kind in KINDS}
    for kind in KINDS:
        assert len({task.metadata["module"] for task in toy.train if task.metadata["kind"] == kind.name}) > 1
    assert not {task.name for task in toy.train} & {task.name for task in toy.heldout}


def test_heldout_functions_are_never_trained_on() -> None:
    for kind in KINDS:
        trained = {snippet.function for snippet in kind.bugs + kind.traps}
        assert not trained & {snippet.function for snippet in kind.heldout_bugs + kind.heldout_traps}


def test_instruction_names_the_file(toy: ToyTasks) -> None:
    for task in toy.train + toy.heldout:
        assert f"{task.metadata['module']}.py" in task.instruction


@pytest.mark.parametrize("split", ["train", "heldout"])
def test_only_the_right_edit_solves_a_task(toy: ToyTasks, split: str, tmp_path: Path) -> None:
    """Nothing fails the hidden tests, and so does a wrong edit followed by the right one."""
    kinds = {kind.name: kind for kind in KINDS}
    for index, task in enumerate(getattr(toy, split)):
        right = kinds[task.metadata["kind"]]
        wrong = [kind for kind in KINDS if kind is not right]
        plans = [(right,), (wrong[index % len(wrong)], right)]
        for plan in plans if index else [(), *plans]:
            repository = tmp_path / task.name
            shutil.copytree(task.environment / "repo", repository)
            for kind in plan:
                for path in sources(repository):
                    path.write_text(kind.repair(path.read_text()))
            solved = hidden_tests_pass(task, repository)
            assert solved == (plan == (right,)), (task.name, [kind.name for kind in plan])
            shutil.rmtree(repository)


def test_reference_patch_is_the_right_edit(toy: ToyTasks, tmp_path: Path) -> None:
    kinds = {kind.name: kind for kind in KINDS}
    for task in toy.train[:4] + toy.heldout[:2]:
        repository = tmp_path / task.name
        shutil.copytree(task.environment / "repo", repository)
        expected = [kinds[task.metadata["kind"]].repair(path.read_text()) for path in sources(repository)]
        subprocess.run(["git", "apply", task.folder / "solution" / "reference.patch"], cwd=repository, check=True)
        assert [path.read_text() for path in sources(repository)] == expected


def test_repository_is_clean_git_with_passing_visible_tests(toy: ToyTasks) -> None:
    def git(repository: Path, *words: str) -> str:
        return subprocess.run(["git", "-C", repository, *words], capture_output=True, text=True, check=True).stdout

    for task in toy.train[:3] + toy.heldout[:2]:
        repository = task.environment / "repo"
        assert git(repository, "status", "--porcelain") == ""
        assert git(repository, "rev-list", "--count", "HEAD").strip() == "1"
        assert git(repository, "fsck", "--strict") == ""
        done = subprocess.run(
            [PYTHON, "-B", "-m", "unittest", "discover", "-q", "-s", "tests"],
            cwd=repository,
            env={"PYTHONPATH": "src"},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr


def test_verifier_gives_no_reward_to_code_that_leaves_early(toy: ToyTasks, tmp_path: Path) -> None:
    """test.sh believes answers, not an exit status that the code under test can choose."""
    task = toy.train[0]
    repository = tmp_path / "testbed"
    shutil.copytree(task.environment / "repo", repository)
    for path in sources(repository):
        path.write_text("import os\nos._exit(0)\n")
    assert not hidden_tests_pass(task, repository)


def test_every_module_shows_one_kind_only(toy: ToyTasks) -> None:
    for task in toy.train + toy.heldout:
        for path in sources(task.environment / "repo"):
            found = [kind.name for kind in KINDS if kind.find in path.read_text()]
            assert len(found) == (0 if path.name == "__init__.py" else 1), (task.name, path.name)
        for kind in KINDS:
            holders = [path for path in sources(task.environment / "repo") if kind.find in path.read_text()]
            assert len(holders) == 1, (task.name, kind.name)

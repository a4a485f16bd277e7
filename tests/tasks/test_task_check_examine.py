"""The examination of tasks: sound ones pass, weak, flaky, broken and fooled ones are named for what they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cheating_fixtures import LIMITS, judged_in_one_process, open_folder, small_task

from lego_verl.taskcheck.examine import Examination, Examiner
from lego_verl.tasks.__main__ import main
from lego_verl.tasks.cheaters import load_cheaters
from lego_verl.tasks.harbor import read_task
from lego_verl.tasks.index import controlled_tasks, usable_tasks, write_index
from lego_verl.tasks.task import Task, TaskError
from sandbox.local import LocalBackend
from sandbox.sandbox import Sandbox, SandboxSpec

_BEFORE = """def add(a, b):
    return a - b


def double(a):
    return a


# how it is used
# is said here
"""
_PATCH = """diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,10 +1,10 @@
 def add(a, b):
-    return a - b
+    return a + b
 
 
 def double(a):
-    return a
+    return 2 * a
 
 
 # how it is used
-# is said here
+# is said there
"""  # noqa: W293
_TEST = """
if python3 -B -c 'import calc; assert calc.add(2, 2) == 4{}'; then echo 1; else echo 0; fi >/logs/verifier/reward.txt
"""


@pytest.fixture
def folder() -> Iterator[Path]:
    with open_folder() as folder:
        yield folder


def examiner(folder: Path, *names: str, backend: Any = None, repeat: int = 1) -> Examiner:
    chosen = [each for each in load_cheaters() if each.name in names]
    assert len(chosen) == len(names)
    return Examiner(
        backend or LocalBackend(scratch=folder / "scratch"), LIMITS, "check", chosen, repeat=repeat, grading_seconds=20
    )


def weak(folder: Path, more: str = "") -> Task:
    return small_task(folder, before=_BEFORE, patch=_PATCH, test=_TEST.format(more))


async def test_a_sound_task(folder: Path, toys: list[Task]) -> None:
    task = toys[0]
    found = await examiner(folder, "leave_early", "git_reflog", repeat=2).examine(task)
    assert found.usable, found.problems
    assert (found.nop, found.reference, found.control) == ([0.0, 0.0], [1.0, 1.0], False)
    assert found.cheaters == {"git_reflog": "no_patch", "leave_early": "tampered"}
    assert found.seconds is not None
    assert found.seconds > 0
    assert found.memory_mb is not None
    assert 1 < found.memory_mb < LIMITS.memory_mb


async def test_a_part_of_the_solution_that_no_test_guards(folder: Path) -> None:
    found = await examiner(folder).examine(weak(folder / "weak"))
    assert found.unguarded == ["calc.py:6-6"]
    assert found.problems == ["no test guards calc.py:6-6 of the reference patch"]
    assert found.memory_mb is not None
    guarded = await examiner(folder).examine(weak(folder / "guarded", " and calc.double(2) == 4"))
    assert (guarded.unguarded, guarded.problems) == ([], [])


class Turning:
    """A backend that tells the tests how many sandboxes there were: what else differs between two gradings."""

    def __init__(self, backend: LocalBackend, tests: Path) -> None:
        self.backend, self.tests, self.count = backend, tests, 0

    async def start(self, spec: SandboxSpec) -> Sandbox:
        if spec.trial.endswith("-grade") and "reference" in spec.trial:
            self.count += 1
            (self.tests / "turn").write_text(str(self.count))
        return await self.backend.start(spec)


async def test_tests_that_are_flaky(folder: Path) -> None:
    task = weak(folder / "flaky")
    (task.tests / "test.sh").write_text(
        "if [ $(cat /tests/turn) = 2 ]; then echo 0 >/logs/verifier/reward.txt; exit; fi\n" + _TEST.format("")
    )
    (task.tests / "turn").write_text("0")
    backend = Turning(LocalBackend(scratch=folder / "scratch"), task.tests)
    found = await examiner(folder, backend=backend, repeat=3).examine(task)
    assert found.reference == [1.0, 0.0, 1.0]
    assert found.flaky
    assert found.problems == ["flaky: the reference patch earns 1, 0, 1"]


@pytest.mark.parametrize(
    ("test", "says"),
    [
        ("echo 0 >/logs/verifier/reward.txt", "the reference patch earns 0, it must earn 1"),
        ("echo 1 >/logs/verifier/reward.txt", "the empty patch earns 1, it must earn 0"),
        ("echo hello", "the reference patch earns nothing, it must earn 1: [exit 0; the verifier wrote neither"),
    ],
)
async def test_tasks_that_are_not_sound_are_looked_at_no_further(folder: Path, test: str, says: str) -> None:
    task = small_task(folder / "it", before=_BEFORE, patch=_PATCH, test=test)
    found = await examiner(folder, "leave_early").examine(task)
    assert any(says in problem for problem in found.problems), found.problems
    assert (found.cheaters, found.unguarded) == ({}, [])


async def test_a_task_without_a_reference_patch(folder: Path) -> None:
    task = weak(folder / "it")
    (task.folder / "solution/reference.patch").unlink()
    found = await examiner(folder).examine(task)
    assert not found.usable
    assert "reference.patch: is missing" in found.problems[0]


async def test_a_task_whose_tests_can_be_fooled(folder: Path) -> None:
    """There is nothing to turn around in them: it is said, and who makes every comparison true is among those named."""
    names = ("always_equal_builtins", "leave_early", "rewrite_tests")
    found = await examiner(folder, *names).examine(weak(folder / "it", " and calc.double(2) == 4"))
    assert not found.control
    assert found.cheaters == {"always_equal_builtins": "solved", "leave_early": "solved", "rewrite_tests": "no_patch"}
    assert found.problems == ["cheaters gained: always_equal_builtins earned 1; leave_early earned 1"]


async def test_a_task_whose_tests_can_be_turned_around(folder: Path, toys: list[Task]) -> None:
    names = ("always_equal_builtins", "leave_early")
    found = await examiner(folder, *names).examine(judged_in_one_process(toys[0], folder / "one-process"))
    assert (found.control, found.cheaters, found.problems) == (True, dict.fromkeys(names, "tampered"), [])


# --- the index


def _examined(task: Task, **more: Any) -> dict[str, dict[str, Any]]:
    return {task.name: Examination(task.name, task.digest, str(task.folder), [0.0], [1.0], **more).as_dict()}


def test_the_index_keeps_what_is_usable_and_unchanged(folder: Path) -> None:
    tasks = [weak(folder / name) for name in ("a", "b", "c")]
    path = folder / "deep/index.json"
    found = _examined(tasks[0], control=True) | _examined(tasks[1], problems=["no"])
    write_index(path, found, {"repeat": 1})
    write_index(path, _examined(tasks[2]), {"repeat": 2})
    content = json.loads(path.read_text())
    assert content["usable"] == ["a", "c"]
    assert content["settings"] == {"repeat": 2}
    assert content["tasks"]["b"]["usable"] is False
    assert [task.name for task in usable_tasks(tasks, path)] == ["a", "c"]
    assert controlled_tasks(path) == {tasks[0].digest}

    (tasks[0].tests / "test.sh").write_text("another\n")
    assert [task.name for task in usable_tasks([read_task(task.folder) for task in tasks], path)] == ["c"]
    with pytest.raises(TaskError, match="none of 1 tasks is usable"):
        usable_tasks([tasks[1]], path)


@pytest.mark.parametrize(
    ("content", "says"), [(None, "no such index"), ("{", "not an index"), ('{"version": 9}', "of version 1")]
)
def test_files_that_are_no_index(tmp_path: Path, content: str | None, says: str) -> None:
    if content is not None:
        (tmp_path / "index.json").write_text(content)
    with pytest.raises(TaskError, match=says):
        usable_tasks([], tmp_path / "index.json")


# --- the command


def test_the_command(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    task = weak(folder / "weak")
    given = [f"task={task.folder}", f"out={folder}/out", "check.only=[plant_reward]", "check.repeat=1"]
    assert main(["check", *given]) == 1
    shown = capsys.readouterr()
    assert "no test guards calc.py:6-6" in shown.out
    assert "0 of 1 tasks are usable" in shown.out
    content = json.loads((folder / "out/index.json").read_text())
    assert content["tasks"]["weak"]["cheaters"] == {"plant_reward": "tampered"}
    assert main(["check", *given, "check.hunks=0"]) == 0
    assert json.loads((folder / "out/index.json").read_text())["usable"] == ["weak"]


def test_the_library_is_listed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["cheaters"]) == 0
    assert "git_reflog" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        ([], "check|cheaters"),
        (["sing"], "check|cheaters"),
        (["check", "task=nothing", "tasks=toy"], "task=nothing: there is no such task or folder; there are "),
        (["check", "check.only=[nobody]"], "check.only: there is no cheater nobody; there are always_equal, "),
        (["check", "cheaters=/nowhere"], "cheaters=/nowhere: there is no such folder"),
        (["check", "check.repeat=0"], "check.repeat must be at least 1"),
        (["check", "check.often=3"], "often"),
    ],
)
def test_what_cannot_be_is_one_plain_line(
    arguments: list[str], says: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = [f"out={folder}/out"] if arguments[:1] == ["check"] else []
    assert main([*arguments, *out]) == 2
    errors = capsys.readouterr().err
    assert says in errors
    assert errors.count("\n") == 1

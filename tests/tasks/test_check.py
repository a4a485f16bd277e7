"""The check of tasks: sound ones pass once and are remembered, others are named with the file that is wrong."""

import asyncio
import json
from pathlib import Path

import pytest

from lego_verl.tasks.check import check_task, check_tasks
from lego_verl.tasks.harbor import read_task
from lego_verl.tasks.task import Task, TaskError
from lego_verl.tasks.toy import make_toy_tasks


@pytest.fixture
def tasks(tmp_path: Path) -> list[Task]:
    return make_toy_tasks(tmp_path / "toy").train[:4]


class Grader:
    """Solves with any patch; ``unsolved`` and ``free`` name tasks that behave badly."""

    def __init__(self, unsolved: str = "", free: str = "", broken: str = "") -> None:
        self.unsolved, self.free, self.broken = unsolved, free, broken
        self.calls: list[str] = []
        self.running = self.most = 0

    async def __call__(self, task: Task, patch: bytes) -> float:
        self.calls.append(task.name)
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0)
        self.running -= 1
        if task.name == self.broken:
            raise RuntimeError("the sandbox is gone")
        if not patch:
            return float(task.name == self.free)
        return float(task.name != self.unsolved)


async def test_sound_tasks_are_graded_once(tasks: list[Task], tmp_path: Path) -> None:
    grader, cache = Grader(), tmp_path / "deep" / "sound.json"
    assert await check_tasks(tasks, grader, cache=cache, concurrency=3) == 4
    assert len(grader.calls) == 8
    assert grader.most <= 3
    assert await check_tasks(tasks, grader, cache=cache) == 0
    assert set(json.loads(cache.read_text())) == {task.digest for task in tasks}

    (tasks[1].tests / "test.sh").write_text("changed\n")
    changed = [tasks[0], read_task(tasks[1].folder), *tasks[2:]]
    assert await check_tasks(changed, grader, cache=cache) == 1


async def test_reference_patch_that_does_not_solve(tasks: list[Task], tmp_path: Path) -> None:
    cache = tmp_path / "sound.json"
    with pytest.raises(TaskError, match=rf"task {tasks[2].name}: .*reference.patch: the reference patch earns 0"):
        await check_tasks(tasks, Grader(unsolved=tasks[2].name), cache=cache)
    # the others were sound, and that is kept
    assert len(json.loads(cache.read_text())) == 3


async def test_empty_patch_that_solves(tasks: list[Task]) -> None:
    with pytest.raises(TaskError, match=r"the empty patch earns 1, it must earn 0"):
        await check_task(tasks[0], Grader(free=tasks[0].name))


async def test_missing_or_empty_reference_patch(tasks: list[Task]) -> None:
    patch = tasks[0].folder / "solution" / "reference.patch"
    patch.write_text("")
    with pytest.raises(TaskError, match=r"reference.patch: is empty"):
        await check_task(tasks[0], Grader())
    patch.unlink()
    with pytest.raises(TaskError, match=r"reference.patch: is missing"):
        await check_task(tasks[0], Grader())


async def test_fault_of_the_sandbox_is_no_verdict(tasks: list[Task], tmp_path: Path) -> None:
    cache = tmp_path / "sound.json"
    with pytest.raises(RuntimeError, match="the sandbox is gone"):
        await check_tasks(tasks, Grader(broken=tasks[0].name), cache=cache)
    assert tasks[0].digest not in json.loads(cache.read_text())


async def test_unreadable_cache_is_made_anew(tasks: list[Task], tmp_path: Path) -> None:
    cache = tmp_path / "sound.json"
    cache.write_text("{not json")
    assert await check_tasks(tasks, Grader(), cache=cache) == 4
    assert await check_tasks(tasks, Grader(), cache=cache) == 0

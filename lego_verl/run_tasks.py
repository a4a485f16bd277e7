"""The tasks of a run: read, held against an index, given their images, checked, and written as verl's dataset."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import zip_longest
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from harness_adapters.runtime import cache_folder
from lego_verl.config import LegoConfig, MissingImage
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.recipe_tasks import recipe_tasks
from lego_verl.tasks.check import check_tasks
from lego_verl.tasks.index import usable_tasks
from lego_verl.tasks.task import Task, TaskError
from lego_verl.trial.from_recipe import sandbox_limits
from sandbox.grader import grade
from sandbox.sandbox import Backend, Image


class NoTasks(RuntimeError):
    """There is nothing to train on; one line that says why and what to do."""


def tasks_of(lego: LegoConfig, run: RunFolder) -> tuple[list[Task], list[Task]]:
    """Tasks to train on and held-out tasks.

    Raises:
        ConfigError, TaskError: as ``recipe_tasks``; where an index of tasks is named that is not there, or knows none
            of them as usable.
    """
    train, heldout = (_indexed(tasks, lego) for tasks in recipe_tasks(lego, run.tasks))
    return (in_turn(train, lego.run.seed) if lego.tasks.kind == "toy" else train), heldout


def _indexed(tasks: list[Task], lego: LegoConfig) -> list[Task]:
    return usable_tasks(tasks, Path(lego.tasks.index)) if lego.tasks.index and tasks else tasks


async def with_images(
    train: list[Task], heldout: list[Task], backend: Backend, lego: LegoConfig, console: Console
) -> tuple[list[Task], list[Task]]:
    """Get the images of all tasks; return the tasks whose image could be had.

    Raises:
        NoTasks: for images that cannot be had, unless the recipe drops their tasks and some are left.
        SandboxError: when the machine or a daemon fails.
    """
    wanted = [(task, Image(task.environment, task.image, task.workdir)) for task in (*train, *heldout)]
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("images", total=None)
        missing = await backend.fetch(
            [image for _, image in wanted], lambda done, of: progress.update(bar, completed=done, total=of)
        )
    if not missing:
        return train, heldout
    dropped = [task.name for task, image in wanted if image in missing]
    some = ", ".join(dropped[:3]) + (", …" if len(dropped) > 3 else "")
    why = f"{len(dropped)} of {len(wanted)} tasks have no image ({some}): {next(iter(missing.values()))}"
    if lego.sandbox.missing_image is MissingImage.stop:
        raise NoTasks(f"{why} (sandbox.missing_image=drop goes on without them)")
    kept = [task for task, image in wanted if image not in missing]
    left = [task for task in train if task in kept], [task for task in heldout if task in kept]
    if not left[0]:
        raise NoTasks(f"no task to train on is left: {why}")
    console.print(f"left out: {why}", markup=False)
    return left


def in_turn(tasks: Sequence[Task], seed: int) -> list[Task]:
    """Tasks of different kinds in turn, each kind in a drawn order: every step then sees all kinds."""
    rng = random.Random(seed)
    by_kind: dict[str, list[Task]] = {}
    for task in rng.sample(tasks, len(tasks)):
        by_kind.setdefault(str(task.metadata.get("kind", "")), []).append(task)
    rounds = zip_longest(*by_kind.values())
    return [task for turn in rounds for task in turn if task is not None]


async def check_all(
    tasks: Sequence[Task], backend: Backend, lego: LegoConfig, run: RunFolder, console: Console
) -> None:
    """Have every task prove itself in the sandbox; tasks that did so before are not asked again.

    Raises:
        TaskError: for the first task whose reference patch does not earn 1, or whose empty patch does not earn 0.
    """

    async def grade_task(task: Task, patch: bytes) -> float:
        verdict = await grade(
            backend,
            Image(task.environment, task.image, task.workdir),
            patch,
            task.tests,
            deadline=min(lego.trial.grading_seconds, task.verifier_timeout),
            limits=sandbox_limits(lego),
            run=f"{run.name}-check",
            trial=task.name,
        )
        if verdict.reward is None:
            raise TaskError(f"task {task.name}: {task.tests}: no verdict ({verdict.status}): {verdict.output[-300:]}")
        return verdict.reward

    with console.status(f"checking {len(tasks)} tasks"):
        cache = cache_folder(lego.run.cache) / f"sound_tasks-{backend.name}.json"
        checked = await check_tasks(tasks, grade_task, cache=cache, concurrency=lego.sandbox.starts)
    console.print(f"tasks: {len(tasks)} sound ({checked} checked now)")


def write_dataset(path: Path, tasks: Sequence[Task], split: str) -> Path:
    """The tasks as verl's dataset: one row a task."""
    # Comes with the extra: without it, the line that says so has to come first.
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = [
        {
            "data_source": f"lego_verl/{split}",
            "agent_name": "harness",
            "prompt": [{"role": "user", "content": task.instruction}],
            "ability": "code",
            "reward_model": {"style": "trial", "ground_truth": ""},
            "extra_info": {"index": index, "split": split, "task": task.name, "task_folder": str(task.folder)},
        }
        for index, task in enumerate(tasks)
    ]
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path

"""Whether tasks are sound: the reference patch earns 1, the empty patch 0. Verdicts are kept by digest."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path

from lego_verl.tasks.task import Task, TaskError

Grade = Callable[[Task, bytes], Awaitable[float]]
"""Grade a patch against a task; what it raises (a sandbox that fails, say) is passed on and not kept."""

REFERENCE_PATCH = "reference.patch"


async def check_task(task: Task, grade: Grade) -> None:
    """Raise ``TaskError`` unless the task's own solution solves it and doing nothing does not."""
    patch = reference_patch(task)
    reward = await grade(task, b"")
    if reward != 0:
        raise TaskError(f"task {task.name}: {task.tests}: the empty patch earns {reward:g}, it must earn 0")
    reward = await grade(task, patch)
    if reward != 1:
        raise TaskError(
            f"task {task.name}: {task.folder / 'solution' / REFERENCE_PATCH}: the reference patch earns {reward:g}, "
            "it must earn 1"
        )


async def check_tasks(tasks: Sequence[Task], grade: Grade, *, cache: Path | None = None, concurrency: int = 2) -> int:
    """Check all tasks, several at once; those that ``cache`` (a JSON file) knows as sound are not graded again.

    Returns:
        How many had to be graded.

    Raises:
        TaskError: of the first task, by order, that is not sound.
    """
    sound = _read(cache)
    new = [task for task in tasks if task.digest not in sound]
    slots = asyncio.Semaphore(concurrency)

    async def one(task: Task) -> None:
        async with slots:
            await check_task(task, grade)
        sound[task.digest] = task.name

    results = await asyncio.gather(*(one(task) for task in new), return_exceptions=True)
    if cache is not None and new:
        _write(cache, sound)
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return len(new)


def reference_patch(task: Task) -> bytes:
    """The patch in the task's ``solution`` folder.

    Raises:
        TaskError: when there is none: the task cannot be checked.
    """
    path = task.folder / "solution" / REFERENCE_PATCH
    try:
        patch = path.read_bytes()
    except FileNotFoundError:
        raise TaskError(
            f"task {task.name}: {path}: is missing; without it the task cannot be checked (or set tasks.check=false)"
        ) from None
    if not patch.strip():
        raise TaskError(f"task {task.name}: {path}: is empty")
    return patch


def _read(cache: Path | None) -> dict[str, str]:
    """Names by digest. A cache that cannot be read is one that knows nothing."""
    try:
        found = json.loads(cache.read_bytes()) if cache is not None else {}
    except (FileNotFoundError, json.JSONDecodeError, UnicodeDecodeError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(cache: Path, sound: dict[str, str]) -> None:
    cache.parent.mkdir(parents=True, exist_ok=True)
    temporary = cache.with_name(f"{cache.name}.{os.getpid()}")
    temporary.write_text(json.dumps(sound, indent=1, sort_keys=True))
    temporary.replace(cache)

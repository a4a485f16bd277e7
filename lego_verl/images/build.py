"""``python -m lego_verl.images build``: the images of tasks, on every daemon that will run them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from lego_verl.config import LegoConfig
from lego_verl.recipe_tasks import recipe_tasks
from lego_verl.tasks.harbor import load_tasks, read_task
from lego_verl.tasks.task import Task
from sandbox.docker import DockerBackend
from sandbox.sandbox import Image


def folder_of(arguments: Sequence[str]) -> tuple[list[str], Path | None]:
    """The overrides of a recipe among the arguments, and the folder when ``tasks=`` names one."""
    folder, overrides = None, []
    for argument in arguments:
        value = argument.removeprefix("tasks=")
        if value != argument and Path(value).is_dir():
            folder = Path(value)
        else:
            overrides.append(argument)
    return overrides, folder


async def build(lego: LegoConfig, folder: Path | None, console: Console) -> int:
    """Make the images; return the exit code.

    Raises:
        SandboxError: when a daemon fails or does not answer.
        TaskError: for tasks that cannot be read.
    """
    backend = DockerBackend(lego.sandbox.hosts, starts=lego.sandbox.starts)
    await backend.check()
    await backend.reap()  # what a killed one left
    images = {task.name: Image(task.environment, task.image, task.workdir) for task in _tasks(lego, folder)}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("images", total=None)
        missing = await backend.fetch(
            list(images.values()), report=lambda done, of: progress.update(bar, completed=done, total=of)
        )
    for name, image in images.items():
        if image in missing:
            console.print(f"{name}: {missing[image]}", markup=False, soft_wrap=True)
    there = sum(image not in missing for image in images.values())
    where = ", ".join(str(host) for host in backend.hosts)
    console.print(f"{there} of {len(images)} images are on {where}", soft_wrap=True)
    return 1 if missing else 0


def _tasks(lego: LegoConfig, folder: Path | None) -> list[Task]:
    if folder is not None:
        return [read_task(folder)] if (folder / "task.toml").is_file() else load_tasks(folder)
    train, heldout = recipe_tasks(lego, Path(lego.run.folder) / f"{lego.tasks.kind}-tasks", seed=lego.run.seed)
    return [*train, *heldout]

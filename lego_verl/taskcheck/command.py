"""The verbs of ``python -m lego_verl.tasks``."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from lego_verl.compose import compose_recipe, show_recipe
from lego_verl.config import ConfigError, LegoConfig, typed_part
from lego_verl.recipe_tasks import named_tasks
from lego_verl.taskcheck.examine import Examination, Examiner
from lego_verl.taskcheck.show import show_examinations
from lego_verl.tasks.cheaters import Cheater, load_cheaters
from lego_verl.tasks.index import write_index
from lego_verl.tasks.task import Task, TaskError
from lego_verl.trial.from_recipe import sandbox_backend, sandbox_limits
from lego_verl.verb import ended
from sandbox.sandbox import SandboxError


@dataclass
class CheckConfig:
    only: list[str] | None = None
    repeat: int = 3
    hunks: int = 20


@dataclass
class TaskCheckConfig:
    """What ``check`` takes beside the key ``lego``."""

    task: str | None = None
    cheaters: str | None = None
    check: CheckConfig = field(default_factory=CheckConfig)
    out: str = "runs/task-check"


def check(arguments: Sequence[str]) -> int:
    """Examine tasks, show a table, write the index."""
    if any(argument.startswith("-") for argument in arguments):
        return show_recipe(arguments, "task_check")
    codes: dict[type[Exception], int] = {ConfigError: 2, TaskError: 2, SandboxError: 1, OSError: 1}
    return ended(lambda: _check(arguments, Console(highlight=False)), codes)


def _check(arguments: Sequence[str], console: Console) -> int:
    lego, settings = _composed(arguments)
    chosen = _chosen(load_cheaters(_folder(settings)), settings.check.only)
    out = Path(settings.out).resolve()
    tasks = named_tasks(settings.task, lego, out / "tasks")
    found = asyncio.run(_examine(tasks, chosen, lego, settings, console))
    named = {each.task: each.as_dict() for each in found}
    write_index(out / "index.json", named, {"cheaters": [each.name for each in chosen], **vars(settings.check)})
    show_examinations(found, console)
    console.print(f"index: {out / 'index.json'}", soft_wrap=True)
    return 0 if all(each.usable for each in found) else 1


def cheaters(arguments: Sequence[str]) -> int:
    """List the cheaters and their ideas."""
    return ended(lambda: _list_cheaters(arguments), {ConfigError: 2, TaskError: 2})


def _list_cheaters(arguments: Sequence[str]) -> int:
    _, settings = _composed(arguments)
    table = Table("cheater", "idea", "told")
    for each in load_cheaters(_folder(settings)):
        table.add_row(each.name, each.idea, "tampered" if each.told else "")
    Console(highlight=False).print(table)
    return 0


def _composed(arguments: Sequence[str]) -> tuple[LegoConfig, TaskCheckConfig]:
    config = compose_recipe(arguments, config_name="task_check")
    own = OmegaConf.masked_copy(config, [str(key) for key in config if key not in ("lego", "data")])
    settings = typed_part(own, "", TaskCheckConfig)
    if settings.check.repeat < 1 or settings.check.hunks < 0:
        raise ConfigError("check.repeat must be at least 1, check.hunks at least 0")
    return typed_part(config, "lego", LegoConfig), settings


def _folder(settings: TaskCheckConfig) -> Path | None:
    return None if settings.cheaters is None else Path(settings.cheaters)


def _chosen(known: Sequence[Cheater], only: Sequence[str] | None) -> list[Cheater]:
    if only is None:
        return list(known)
    names = {each.name: each for each in known}
    unknown = [name for name in only if name not in names]
    if unknown:
        raise ConfigError(f"check.only: there is no cheater {unknown[0]}; there are {', '.join(names)}")
    return [names[name] for name in only]


async def _examine(
    tasks: Sequence[Task], chosen: Sequence[Cheater], lego: LegoConfig, settings: TaskCheckConfig, console: Console
) -> list[Examination]:
    backend = await sandbox_backend(lego)
    await backend.reap()  # what a killed one left
    run = f"task-check-{os.getpid()}"
    options: dict[str, Any] = {"repeat": settings.check.repeat, "hunks": settings.check.hunks}
    examiner = Examiner(
        backend, sandbox_limits(lego), run, chosen, grading_seconds=lego.trial.grading_seconds, **options
    )
    slots = asyncio.Semaphore(lego.sandbox.starts)
    try:
        with Progress(console=console, transient=True) as progress:
            bar = progress.add_task(f"{len(tasks)} tasks, {len(chosen)} cheaters each", total=len(tasks))

            async def one(task: Task) -> Examination:
                async with slots:
                    found = await examiner.examine(task)
                progress.advance(bar)
                return found

            return list(await asyncio.gather(*(one(task) for task in tasks)))
    finally:
        await backend.reap(run)

"""The tasks that a recipe names, of whatever kind."""

from __future__ import annotations

from pathlib import Path

from omegaconf import OmegaConf

from lego_verl.config import ConfigError, LegoConfig, typed_part
from lego_verl.tasks.harbor import load_tasks, read_task
from lego_verl.tasks.swebench import swebench_tasks
from lego_verl.tasks.swebench_options import SwebenchOptions
from lego_verl.tasks.task import Task, TaskError
from lego_verl.tasks.toy import make_toy_tasks
from sandbox.swebench import MISSING_EXTRA, has_swebench

KINDS = ("toy", "harbor", "swebench")


def recipe_tasks(lego: LegoConfig, folder: Path, *, seed: int = 0) -> tuple[list[Task], list[Task]]:
    """Tasks to train on and held-out tasks. Those that are made or converted are written to ``folder``.

    Raises:
        ConfigError: for folders that are not there or hold no task, options that there are not, a missing extra.
        TaskError: naming the task, the file and what is wrong with it.
    """
    if lego.tasks.kind == "toy":
        made = make_toy_tasks(folder, seed=seed)
        return made.train, made.heldout
    loaded: list[list[Task]] = []
    for key, source in (("train", lego.tasks.train), ("heldout", lego.tasks.heldout)):
        if source is None:
            loaded.append([])
        elif lego.tasks.kind == "swebench":
            if not has_swebench():
                raise ConfigError(MISSING_EXTRA)
            given = OmegaConf.create({"lego": {"tasks": {"options": lego.tasks.options}}})
            options = typed_part(given, "lego.tasks.options", SwebenchOptions)
            loaded.append(swebench_tasks(source, folder / key, options))
        elif not Path(source).is_dir():
            raise ConfigError(f"lego.tasks.{key}={source}: there is no such folder")
        else:
            loaded.append(load_tasks(Path(source)))
    return loaded[0], loaded[1]


def named_tasks(wanted: str | None, lego: LegoConfig, folder: Path) -> list[Task]:
    """The task in the folder ``wanted``, or the recipe's task of that name; all of the recipe's for None.

    Raises:
        ConfigError, TaskError: as ``recipe_tasks``; for a name that there is not, with those there are.
    """
    if wanted is not None and Path(wanted, "task.toml").exists():
        return [read_task(Path(wanted))]
    train, heldout = recipe_tasks(lego, folder, seed=lego.run.seed)
    tasks = [*train, *heldout]
    named = tasks if wanted is None else [task for task in tasks if task.name == wanted]
    if not named:
        names = ", ".join(sorted(task.name for task in tasks))
        raise TaskError(f"task={wanted}: there is no such task or folder; there are {names}")
    return named

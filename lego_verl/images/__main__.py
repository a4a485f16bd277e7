"""``python -m lego_verl.images build tasks=…``: make the images of tasks before a run needs them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from lego_verl.compose import compose_recipe
from lego_verl.config import ConfigError, LegoConfig, typed
from lego_verl.tasks.harbor import load_tasks, read_task
from lego_verl.tasks.task import Task, TaskError
from lego_verl.tasks.toy import make_toy_tasks
from sandbox.docker import DockerBackend
from sandbox.sandbox import Image, SandboxError

_USAGE = """\
usage: python -m lego_verl.images build tasks=toy|FOLDER [KEY=VALUE ...]

Makes the images that the tasks' sandboxes start from, on every daemon that will run them. A task's image comes from
its reference (pulled), or from its Dockerfile (built); where a Dockerfile only copies files, and its base can be had
from nowhere, the host's own packages stand in for the base. What is there already is not made again.

  tasks=FOLDER          a task in Harbor's layout, or a folder of them
  sandbox.hosts=[URL]   the daemons (default: what DOCKER_HOST says, or this machine's)

exit codes: 0 all are there, 1 some cannot be had, 2 a bad argument"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    verb, *rest = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if verb in ("-h", "--help") or any(each in ("-h", "--help") for each in rest):
        print(_USAGE)
        return 0
    if verb != "build":
        print(f"lego_verl: {verb}: there is no such verb; it is build", file=sys.stderr)
        return 2
    console = Console(highlight=False)
    try:
        overrides, folder = _folder_of(rest)
        lego = typed(compose_recipe(["sandbox=docker", *overrides], config_name="trial"))
        return asyncio.run(_build(lego, folder, console))
    except (ConfigError, TaskError) as error:
        print(f"lego_verl: {error}", file=sys.stderr)
        return 2
    except (SandboxError, OSError) as error:
        print(f"lego_verl: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        console.print("interrupted; what is made so far stays")
        return 130


def _folder_of(arguments: Sequence[str]) -> tuple[list[str], Path | None]:
    """The overrides of a recipe among the arguments, and the folder when ``tasks=`` names one."""
    folder, overrides = None, []
    for argument in arguments:
        value = argument.removeprefix("tasks=")
        if value != argument and Path(value).is_dir():
            folder = Path(value)
        else:
            overrides.append(argument)
    return overrides, folder


def _tasks(lego: LegoConfig, folder: Path | None) -> list[Task]:
    if folder is not None:
        return [read_task(folder)] if (folder / "task.toml").is_file() else load_tasks(folder)
    if lego.tasks.kind == "toy":
        toy = make_toy_tasks(Path(lego.run.folder) / "toy-tasks", seed=lego.run.seed)
        return [*toy.train, *toy.heldout]
    return [task for each in (lego.tasks.train, lego.tasks.heldout) if each for task in load_tasks(Path(each))]


async def _build(lego: LegoConfig, folder: Path | None, console: Console) -> int:
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


if __name__ == "__main__":
    sys.exit(main())

"""``python -m lego_verl.images build|prune``: the command line."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence

from rich.console import Console

from lego_verl.compose import compose_recipe
from lego_verl.config import ConfigError, typed
from lego_verl.images.build import build, folder_of
from lego_verl.images.prune import DAYS, prune
from lego_verl.tasks.task import TaskError
from lego_verl.verb import ended, wide_console
from sandbox.sandbox import SandboxError

_USAGE = f"""\
usage: python -m lego_verl.images build tasks=toy|FOLDER [KEY=VALUE ...]
       python -m lego_verl.images prune [--dry-run] [--days N] [KEY=VALUE ...]

build makes the images that the tasks' sandboxes start from, on every daemon that will run them. A task's image comes
from its reference (pulled), or from its Dockerfile (built); where a Dockerfile only copies files, and its base can be
had from nowhere, the host's own packages stand in for the base. What is there already is not made again.

prune removes what was made on the daemons more than N days ago ({DAYS:g}; 0: all) and is not used: images, and copied
folders. Never what was pulled, has a name of your own or is used by a container; and nothing while a run or trial of
this machine lives. What is asked for again is made again. (Harness runtimes: python -m lego_verl.harnesses clean.)

  tasks=FOLDER          a task in Harbor's layout, or a folder of them
  sandbox.hosts=[URL]   the daemons (default: what DOCKER_HOST says, or this machine's)
  --dry-run             only list what would be removed

exit codes: 0 all are there, or nothing unused is left; 1 some cannot be had, something is left; 2 a bad argument"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    verb, *rest = list(sys.argv[1:] if arguments is None else arguments) or ["--help"]
    if verb in ("-h", "--help") or any(each in ("-h", "--help") for each in rest):
        print(_USAGE)
        return 0
    verbs = {"build": _build, "prune": _prune}
    if verb not in verbs:
        print(f"lego_verl: {verb}: there is no such verb; there are build and prune", file=sys.stderr)
        return 2
    codes: dict[type[Exception], int] = {ConfigError: 2, TaskError: 2, SandboxError: 1, OSError: 1}
    interrupted = "interrupted; what is done so far stays"
    return ended(lambda: verbs[verb](rest, wide_console()), codes, interrupted=interrupted)


def _build(arguments: Sequence[str], console: Console) -> int:
    overrides, folder = folder_of(arguments)
    lego = typed(compose_recipe(["sandbox=docker", *overrides], config_name="trial"))
    return asyncio.run(build(lego, folder, console))


def _prune(arguments: Sequence[str], console: Console) -> int:
    overrides, days, dry = [], DAYS, False
    given = iter(arguments)
    for argument in given:
        if argument == "--dry-run":
            dry = True
        elif argument.partition("=")[0] == "--days":
            days = _number(argument.partition("=")[2] or next(given, ""))
        else:
            overrides.append(argument)
    lego = typed(compose_recipe(["sandbox=docker", *overrides], config_name="trial"))
    return asyncio.run(prune(lego, console, days=days, dry=dry))


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise ConfigError(f"--days {text}: it is a number of days") from None


if __name__ == "__main__":
    sys.exit(main())

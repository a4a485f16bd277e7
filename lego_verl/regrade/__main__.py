"""``python -m lego_verl.regrade RUN``: the command line."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from lego_verl.config import ConfigError, LegoConfig
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.proof.read import NoRun
from lego_verl.regrade.find import TaskFinder, find_trials, grading_part, recipe_of
from lego_verl.regrade.grade import FILE, Comparison, Regraded, regrade
from lego_verl.regrade.show import show_regraded
from lego_verl.trial.from_recipe import sandbox_backend
from lego_verl.verb import ended, wide_console
from sandbox.choose import NAMES as BACKENDS
from sandbox.sandbox import SandboxError

_DESCRIPTION = """\
Grades the patches of a finished run again, without an agent: each in a fresh sandbox, by its task's hidden tests, as
the trial itself was graded. Says what changed, and appends a line a trial to regrade.jsonl in the run's folder; nothing
that the run wrote is touched. A fault of the machine is no verdict, and changes nothing."""
_EXIT_CODES = """\
exit codes:
  0    nothing changed
  1    the outcome or reward of at least one trial changed
  2    an argument, the run or its recipe cannot be used
  3    nothing is known to have changed, but some trials could not be graded
  130  interrupted; what was graded until then is in regrade.jsonl

examples:
  python -m lego_verl.regrade my-run
  python -m lego_verl.regrade runs/my-run --step 12 --backend local --jobs 8
  python -m lego_verl.regrade my-run --trial 0012/bakery-1f3c-0"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    given = _parser().parse_args(arguments)
    return ended(lambda: _regrade(given, wide_console()), {NoRun: 2, ConfigError: 2, SandboxError: 3, OSError: 3})


def _regrade(given: argparse.Namespace, console: Console) -> int:
    run, folders = find_trials(given.run, trial=given.trial, step=given.step)
    recipe = recipe_of(run)
    tasks = TaskFinder(run, recipe, extra=given.tasks)
    lego = grading_part(recipe)
    results = asyncio.run(regrade_with_progress(run, folders, lego, tasks, backend=given.backend, jobs=given.jobs))
    show_regraded(results, console)
    console.print(f"written to {run.path / FILE}", soft_wrap=True)
    return exit_code(results)


async def regrade_with_progress(
    run: RunFolder,
    folders: Sequence[Path],
    lego: LegoConfig,
    tasks: TaskFinder,
    *,
    backend: str | None,
    jobs: int | None,
) -> list[Regraded]:
    """``regrade`` with a bar. ``backend`` and ``jobs`` are by default as the recipe has them.

    Raises:
        SandboxUnavailable: when there is no such sandbox here.
        ConfigError: when the recipe names one that is not known.
        NoRun, OSError: as ``regrade``.
    """
    lego.sandbox.backend = backend or lego.sandbox.backend
    if lego.sandbox.backend not in BACKENDS:
        raise ConfigError(f"lego.sandbox.backend={lego.sandbox.backend}: there is no such sandbox; give --backend")
    chosen = await sandbox_backend(lego)
    await chosen.reap()  # what a killed one left
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task(f"grading again ({chosen.name})", total=len(folders))
        return await regrade(
            run,
            folders,
            backend=chosen,
            lego=lego,
            tasks=tasks,
            jobs=jobs or lego.sandbox.slots,
            advance=lambda: progress.advance(bar),
        )


def exit_code(results: Sequence[Regraded]) -> int:
    """What the results say, as an exit code."""
    seen = {each.comparison for each in results}
    if Comparison.CHANGED in seen:
        return 1
    return 3 if Comparison.NO_VERDICT in seen else 0


def at_least_one(text: str) -> int:
    """A number of jobs, for argparse."""
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def existing_folder(text: str) -> Path:
    """A folder, for argparse."""
    if not Path(text).is_dir():
        raise argparse.ArgumentTypeError(f"{text}: there is no such folder")
    return Path(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "lego_verl.regrade",
        description=_DESCRIPTION,
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", help="a run's folder, its name under runs/, or the folder of one trial")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--trial", metavar="NAME", help="one trial: its name, STEP/NAME, or its folder")
    which.add_argument("--step", metavar="N", type=int, help="the trials of one step")
    parser.add_argument("--backend", choices=BACKENDS, help="the kind of sandbox (default: as the run's recipe has it)")
    parser.add_argument(
        "--jobs", metavar="N", type=at_least_one, help="gradings at once (default: the recipe's sandbox.slots)"
    )
    parser.add_argument(
        "--tasks", metavar="FOLDER", type=existing_folder, help="where the tasks are now, if they were moved"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())

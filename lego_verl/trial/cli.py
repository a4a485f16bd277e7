"""One trial from a request to its folder, without verl or torch: what ``python -m lego_verl.trial`` does."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console

from harness_adapters.adapter import ShellTool
from harness_adapters.progress import build_with_progress
from harness_adapters.registry import load_adapter
from lego_verl.capture.bytelevel import byte_renderer
from lego_verl.capture.parser import HermesParser
from lego_verl.capture.render import Renderer
from lego_verl.policies.endpoint import EndpointPolicy
from lego_verl.policies.policy import ChatPolicy, Sampling
from lego_verl.policies.scripted import ScriptedPolicy
from lego_verl.tasks.task import Task
from lego_verl.trial.bench import open_bench
from lego_verl.trial.limits import TrialLimits
from lego_verl.trial.record import FinishedTrial, write_trial
from lego_verl.trial.run import run_trial
from lego_verl.trial.scripts import limits_of_script, scripted_policy
from sandbox.choose import choose_backend
from sandbox.sandbox import Backend, Limits


@dataclass(frozen=True)
class Endpoint:
    """An OpenAI-compatible server in the policy's place."""

    base_url: str
    """Up to and including ``/v1``."""
    model: str
    api_key: str = ""


@dataclass(frozen=True)
class TrialRequest:
    """Everything that one trial needs to be told."""

    task: Task
    cache: Path
    """Where runtimes are kept."""
    folder: Path
    """Where the trial's folder is written."""
    policy: str | Path | Endpoint = "oracle"
    """``oracle`` or ``nop``, a script (a JSON-lines file of replies), or an endpoint."""
    harness: str = "mini_swe_agent"
    harness_options: Mapping[str, Any] = field(default_factory=dict)
    backend: Callable[[], Awaitable[Backend]] = choose_backend
    limits: TrialLimits = field(default_factory=TrialLimits)
    sandbox: Limits = field(default_factory=Limits)
    sampling: Sampling = field(default_factory=Sampling)


async def run_one(request: TrialRequest, console: Console) -> FinishedTrial:
    """Run the trial and write its folder.

    Raises:
        HarnessError, SandboxUnavailable, TaskError, ScriptError: before the trial, in one line.
    """
    renderer, parser = byte_renderer(), HermesParser()
    adapter = load_adapter(request.harness, request.harness_options)
    async with _policy(request, adapter.shell, renderer, parser) as policy:
        backend = await request.backend()
        await backend.reap()  # what a killed one left
        built = await build_with_progress(adapter.runtime, request.cache, console, share_usr=backend.shares_usr)
        scripted = isinstance(policy, ScriptedPolicy)
        limits = limits_of_script(request.limits) if scripted else request.limits
        async with open_bench(f"trial-{os.getpid()}", backend, adapter, built, sandbox=request.sandbox) as bench:
            with console.status(f"{request.harness} works on {request.task.name}"):
                finished = await run_trial(
                    bench,
                    trial=request.folder.name,
                    task=request.task,
                    policy=policy,
                    renderer=renderer,
                    parser=parser,
                    sampling=request.sampling,
                    limits=limits,
                )
    write_trial(request.folder, finished)
    return finished


@asynccontextmanager
async def _policy(
    request: TrialRequest, shell: ShellTool, renderer: Renderer, parser: HermesParser
) -> AsyncIterator[ScriptedPolicy | ChatPolicy]:
    chosen = request.policy
    if isinstance(chosen, Endpoint):
        endpoint = EndpointPolicy(chosen.base_url, model=chosen.model, api_key=chosen.api_key)
        try:
            yield endpoint
        finally:
            await endpoint.close()
    else:
        yield scripted_policy(chosen, request.task, shell, renderer=renderer, parser=parser)

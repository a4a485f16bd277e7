"""``python -m lego_verl.trial task=… harness=… policy=…``: run one trial and show what happened."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from omegaconf import DictConfig
from rich.console import Console

from harness_adapters.adapter import HarnessError
from harness_adapters.runtime import cache_folder
from lego_verl.compose import compose_recipe, show_recipe
from lego_verl.config import ConfigError, LegoConfig, typed
from lego_verl.harness_mix import one_harness
from lego_verl.policies.scripted import ScriptError
from lego_verl.recipe_tasks import named_tasks
from lego_verl.tasks.task import TaskError
from lego_verl.trial.cli import Endpoint, TrialRequest, run_one
from lego_verl.trial.from_recipe import sandbox_backend, sandbox_limits, trial_limits
from lego_verl.trial.outcome import Treatment
from lego_verl.trial.show import show_trial
from lego_verl.verb import ended
from sandbox.choose import NAMES as BACKENDS
from sandbox.sandbox import SandboxError

_CONTEXT = 1 << 17


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code (0: a verdict, 1: none, 2: a bad recipe)."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    if any(argument.startswith("-") for argument in arguments):
        return show_recipe(arguments, "trial")
    codes: dict[type[Exception], int] = {ConfigError: 2, TaskError: 2, ScriptError: 2}
    return ended(
        lambda: _run(arguments, Console(highlight=False)), codes | {HarnessError: 1, SandboxError: 1, OSError: 1}
    )


def _run(arguments: Sequence[str], console: Console) -> int:
    config = compose_recipe(arguments, config_name="trial")
    request = request_of(config, typed(config))
    console.print(
        f"task     {request.task.name}: {request.task.instruction.splitlines()[0]}", markup=False, soft_wrap=True
    )
    finished = asyncio.run(run_one(request, console))
    show_trial(finished, console, request.folder)
    return 1 if finished.record.treatment is Treatment.DROP else 0


def request_of(config: DictConfig, lego: LegoConfig) -> TrialRequest:
    """The request that a composed ``trial`` recipe makes.

    Raises:
        ConfigError, TaskError: for a policy or a task that cannot be.
    """
    if lego.sandbox.backend not in BACKENDS:
        known = ", ".join(BACKENDS)
        raise ConfigError(f"sandbox.backend={lego.sandbox.backend}: there is no such sandbox; it can be {known}")
    folder = Path(str(config.out)).resolve()
    return TrialRequest(
        task=named_tasks(None if config.task is None else str(config.task), lego, folder / "tasks")[0],
        cache=cache_folder(lego.run.cache),
        folder=folder,
        policy=_policy(lego),
        harness=one_harness(lego.harness),
        harness_options=lego.harness.options,
        backend=partial(sandbox_backend, lego),
        limits=trial_limits(lego, context=_CONTEXT),
        sandbox=sandbox_limits(lego),
    )


def _policy(lego: LegoConfig) -> str | Path | Endpoint:
    policy = lego.policy
    if policy.kind == "endpoint":
        if not policy.base_url or not policy.model:
            raise ConfigError("policy=endpoint needs policy.base_url=http://…/v1 and policy.model=NAME")
        return Endpoint(policy.base_url, policy.model, policy.api_key or "")
    if policy.kind != "scripted":
        raise ConfigError(f"policy={policy.kind} cannot answer without verl; a trial takes scripted or endpoint")
    script = policy.script or "oracle"
    return script if script in ("oracle", "nop") else Path(script)


if __name__ == "__main__":
    sys.exit(main())

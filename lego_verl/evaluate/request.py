"""An evaluation as it is asked for: from a command line's words to everything that running it needs."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from harness_adapters.adapter import HarnessAdapter
from lego_verl.config import ConfigError, LegoConfig, typed, typed_part
from lego_verl.evaluate.plan import Planned, plan
from lego_verl.evaluate.policy import Evaluated, evaluated
from lego_verl.evaluate.settings import EvaluateConfig, Split
from lego_verl.harness_mix import load_harnesses
from lego_verl.images.build import folder_of
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.policies.policy import Sampling
from lego_verl.run_tasks import tasks_of
from lego_verl.tasks.harbor import read_task
from lego_verl.tasks.task import Task
from sandbox.choose import NAMES as BACKENDS

_LISTS = re.compile(r"(harness|harnesses|budgets|only)=([^\[\]{}'\"]+)")


@dataclass(frozen=True)
class Evaluation:
    """What is to be done, and where."""

    lego: LegoConfig
    run: RunFolder
    adapters: Mapping[str, HarnessAdapter]
    policy: Evaluated
    sampling: Sampling
    tasks: Sequence[Task]
    planned: Sequence[Planned]

    @property
    def identity(self) -> dict[str, dict[str, Any]]:
        """What a trial's result depends on, beside what its name and its task say."""
        harness = self.lego.harness
        options = {name: dict(harness.options.get(name) or {}) for name in self.adapters}
        sampling = {"temperature": self.sampling.temperature, "top_p": self.sampling.top_p}
        return {
            "policy": dict(self.policy.identity),
            "sampling": sampling,
            "harness": {"seconds": harness.seconds, "token_limit": harness.token_limit},
            "harness.options": options,
            "runtime": {name: adapter.runtime.name for name, adapter in self.adapters.items()},
        }


def spelt_out(arguments: Sequence[str]) -> list[str]:
    """Arguments in Hydra's words: ``harness=a,b`` is ``harnesses=[a,b]``; ``tasks=FOLDER`` names Harbor's tasks."""
    overrides, folder = folder_of(arguments)
    spelt = []
    for argument in overrides:
        match = _LISTS.fullmatch(argument)
        key = "harnesses" if match and match[1] == "harness" else match and match[1]
        spelt.append(f"{key}=[{match[2]}]" if match else argument)
    if folder is not None:
        spelt += ["tasks=harbor", f"lego.tasks.heldout='{folder.resolve()}'"]
    return spelt


def settings_of(config: DictConfig) -> tuple[LegoConfig, EvaluateConfig]:
    """The typed parts of a composed recipe.

    Raises:
        ConfigError: naming the key.
    """
    own = OmegaConf.masked_copy(config, [each.name for each in fields(EvaluateConfig)])
    lego = typed(config)
    if lego.sandbox.backend not in BACKENDS:
        known = ", ".join(BACKENDS)
        raise ConfigError(f"lego.sandbox.backend={lego.sandbox.backend}: there is no such sandbox; it can be {known}")
    return lego, typed_part(own, "", EvaluateConfig)


def request_of(lego: LegoConfig, settings: EvaluateConfig, run: RunFolder) -> Evaluation:
    """What is asked for, checked; generated tasks are written into the run's folder.

    Raises:
        ConfigError, TaskError, ScriptError: in one line.
    """
    policy = evaluated(lego.policy)
    adapters = load_harnesses(settings.harnesses, lego.harness.options, "harnesses")
    tasks = _tasks(lego, settings, run)
    budgets = settings.budgets or [lego.harness.turn_limit]
    planned = plan(settings.harnesses, budgets, tasks, settings.repeat)
    if policy.endpoint is None:
        for adapter in adapters.values():
            for task in tasks:
                policy.of(task, adapter.shell)  # which an oracle does not have for every task
    sampling = Sampling(temperature=settings.sampling.temperature, top_p=settings.sampling.top_p)
    return Evaluation(lego, run, adapters, policy, sampling, tasks, planned)


def _tasks(lego: LegoConfig, settings: EvaluateConfig, run: RunFolder) -> list[Task]:
    folder = lego.tasks.heldout
    if folder and (Path(folder) / "task.toml").is_file():
        return [read_task(Path(folder))]
    train, held = tasks_of(lego, run)
    chosen = {Split.heldout: held, Split.train: train, Split.all: [*train, *held]}[settings.split]
    if not chosen:
        raise ConfigError(f"split={settings.split.value}: there is no such task; name their folder, tasks=FOLDER")
    named = {task.name: task for task in chosen}
    if unknown := [name for name in settings.only if name not in named]:
        raise ConfigError(f"only={unknown[0]}: there is no such task; there are {', '.join(sorted(named))}")
    return [named[name] for name in settings.only] or chosen

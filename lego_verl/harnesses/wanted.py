"""Which runtimes the adapters of this version ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from harness_adapters.adapter import HarnessError, Runtime
from harness_adapters.registry import adapter_names, load_adapter
from harness_adapters.runtime import runtime_folder
from lego_verl.compose import RECIPES, compose_recipe
from lego_verl.config import LegoConfig, typed

SHARES_USR = {"local": True, "docker": False}
"""The sandboxes that a runtime can be for, and whether they see this machine's /usr: an interpreter there need not be
copied."""


@dataclass(frozen=True)
class Wanted:
    """A runtime that a harness asks for, as its recipe has it."""

    harness: str
    runtime: Runtime
    folders: dict[str, Path]
    """Where it is, built or not, by sandbox; without those for which this machine has no interpreter."""
    problem: str = ""
    """Why there is none, for a harness that cannot be used here as its recipe has it."""


def choose_harness(name: str) -> str:
    """The override that chooses a harness: one of another package may have no recipe of its own."""
    return f"+harness={name}" if (RECIPES / "harness" / f"{name}.yaml").is_file() else f"lego.harness.name={name}"


def harness_recipe(name: str, overrides: Sequence[str] = ()) -> LegoConfig:
    """The recipe of a harness, with overrides.

    Raises:
        ConfigError: in one line.
    """
    return typed(compose_recipe([choose_harness(name), *overrides], config_name="harness_check"))


def wanted_runtimes(cache: Path) -> list[Wanted]:
    """Those of every harness that can be named."""
    return [_wanted(name, cache) for name in adapter_names()]


def _wanted(name: str, cache: Path) -> Wanted:
    try:
        lego = harness_recipe(name)
        runtime = load_adapter(name, lego.harness.options).runtime
    except HarnessError as error:
        return Wanted(name, Runtime(name), {}, str(error))
    folders, problem = {}, ""
    for sandbox, share_usr in SHARES_USR.items():
        try:
            folders[sandbox] = runtime_folder(runtime, cache, share_usr=share_usr)
        except HarnessError as error:
            problem = str(error)
    return Wanted(name, runtime, folders, problem)

"""Compose a recipe from Hydra groups, and say in one line what is wrong with one that does not compose."""

from __future__ import annotations

import difflib
import importlib.util
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path

import hydra
from hydra import compose, initialize_config_dir
from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.global_hydra import GlobalHydra
from hydra.core.plugins import Plugins
from hydra.errors import HydraException
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from harness_adapters.registry import adapter_names
from lego_verl.config import ConfigError, LegoConfig
from lego_verl.router_replay import wire_router_replay

# By place, not by import: a folder called `recipes` where the command is run would be taken for the package.
RECIPES = Path(__file__).resolve().parent.parent / "recipes"
AGENT_LOOPS = RECIPES / "agent_loop.yaml"
_SHORT = re.compile(rf"^([+~]*)({'|'.join(part.name for part in fields(LegoConfig))})\.")
_OPEN = re.compile(r"^lego\.harness\.(options|mix)[.=]")


def verl_recipes() -> Path:
    """verl's own configuration folder, found without importing verl (which takes seconds).

    Raises:
        ConfigError: when verl is not installed.
    """
    spec = importlib.util.find_spec("verl")
    if spec is None or not spec.submodule_search_locations:
        raise ConfigError('verl is not installed: pip install -e ".[cpu]" (or ".[gpu]" on a machine with GPUs)')
    return Path(spec.submodule_search_locations[0]) / "trainer" / "config"


class _VerlSearchPath(SearchPathPlugin):
    """Adds verl's folder to Hydra's search path (``pkg://verl.trainer.config`` without the import)."""

    def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
        # Recipes that need no verl (one trial, a proxy by itself) compose where it is not installed.
        if importlib.util.find_spec("verl") is not None:
            search_path.append(provider="verl", path=f"file://{verl_recipes()}")


def _prepare_hydra() -> None:
    """Tell Hydra what is in no file: the typed tree, verl's folder, and the harnesses of other packages."""
    store = ConfigStore.instance()
    store.store(name="lego_schema", node={"lego": LegoConfig})
    for name in _options("harness"):
        if not (RECIPES / "harness" / f"{name}.yaml").exists():
            node = {"lego": {"harness": {"name": name}}}
            store.store(group="harness", name=name, package="_global_", node=node)
    Plugins.instance().register(_VerlSearchPath)


def _options(group: str) -> list[str]:
    """What a group can be."""
    known = {path.stem for path in (RECIPES / group).glob("*.yaml")}
    return sorted(known | set(adapter_names()) if group == "harness" else known)


def expand(override: str) -> str:
    """``harness.turn_limit=9`` is short for ``lego.harness.turn_limit=9``: verl has no such top-level keys.

    What a harness is called and understands is its own: tables of it take any key without a plus.
    """
    return _OPEN.sub(r"++\g<0>", _SHORT.sub(r"\1lego.\2.", override))


@contextmanager
def hydra_at_recipes() -> Iterator[None]:
    """Hydra set up on this project's and verl's recipes, and put away again."""
    _prepare_hydra()
    GlobalHydra.instance().clear()
    with initialize_config_dir(config_dir=str(RECIPES), version_base="1.3", job_name="lego_verl"):
        yield


def compose_recipe(overrides: Sequence[str], *, config_name: str = "config") -> DictConfig:
    """Compose ``recipes/<config_name>.yaml`` with overrides as on Hydra's command line.

    Raises:
        ConfigError: one line, with the nearest known name where one was misspelt.
    """
    if config_name == "config":
        verl_recipes()
    with hydra_at_recipes():
        try:
            config = compose(config_name=config_name, overrides=[expand(override) for override in overrides])
        except (HydraException, OmegaConfBaseException) as error:
            raise ConfigError(_one_line(error, config_name)) from error
    if OmegaConf.select(config, "actor_rollout_ref.rollout.agent") is not None:
        config.actor_rollout_ref.rollout.agent.agent_loop_config_path = str(AGENT_LOOPS)
        wire_router_replay(config)
    return config


def show_recipe(arguments: Sequence[str], config_name: str = "config") -> int:
    """Hydra's own flags (``--help``, ``--cfg job``, ``--info`` …); return the exit code."""
    _prepare_hydra()

    @hydra.main(config_path=str(RECIPES), config_name=config_name, version_base="1.3")
    def nothing(_: DictConfig) -> None:
        print("lego_verl: flags only show a recipe; to train, give GROUP=OPTION and KEY=VALUE alone", file=sys.stderr)
        raise SystemExit(2)

    sys.argv = [sys.argv[0], *(expand(argument) for argument in arguments)]
    nothing()
    return 0


def _one_line(error: Exception, config_name: str) -> str:
    # Hydra wraps the cause; the innermost message names the key.
    cause: BaseException = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    lines = [line.strip() for line in f"{error}\n{cause}".splitlines() if line.strip()]
    if match := re.search(r"Key '([^']+)' is not in '?\w+", "\n".join(lines)):
        full_key = re.search(r"full_key: (\S+)", "\n".join(lines))
        key = full_key.group(1) if full_key else match.group(1)
        return f"{key}: there is no such key in this recipe{_nearest(key, _known_keys(config_name))}"
    if match := re.search(r"Could not find '([^'/]+)/([^']+)'", "\n".join(lines)):
        group, option = match.groups()
        return f"{group}={option}: there is no such option; {group} can be {', '.join(_options(group))}"
    if match := re.search(r"Could not override '([^']+)'\.? ?(No match in the defaults list)?", "\n".join(lines)):
        return f"{match.group(1)}: there is no such group or key{_nearest(match.group(1), _known_keys(config_name))}"
    return " ".join(lines[:2])


def _nearest(key: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(key, known, n=1, cutoff=0.6)
    return f"; did you mean {close[0]}?" if close else " (to add a new key, write +KEY=VALUE)"


def _known_keys(config_name: str) -> list[str]:
    config = compose(config_name=config_name)
    keys: list[str] = [path.name for path in RECIPES.iterdir() if path.is_dir() and not path.name.startswith("_")]

    def walk(node: object, prefix: str) -> None:
        if isinstance(node, dict):
            for name, value in node.items():
                keys.append(f"{prefix}{name}")
                walk(value, f"{prefix}{name}.")

    walk(OmegaConf.to_container(config, resolve=False), "")
    return keys

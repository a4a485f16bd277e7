"""Recipe: what ran, with which versions, and how it differs from the defaults or from another run."""

from __future__ import annotations

import hashlib
import json
import threading
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from fastapi import APIRouter, Request, Response
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException

from lego_verl.config import ConfigError
from lego_verl.dashboard.api.common import Refused, Run, opened, other_run, recipe_of, reply
from lego_verl.monitor.queries.recipe import flat_keys, recipe_differences
from lego_verl.monitor.run_folder import RunFolder

router = APIRouter(prefix="/api/runs/{run}")

OF_THE_RUN = ("lego.run.name", "lego.run.folder", "trainer.experiment_name", "trainer.default_local_dir")
"""Keys that differ between any two runs, and say nothing."""
_composing = threading.Lock()


@router.get("/recipe")
def recipe(run: Run) -> Response:
    """The resolved recipe by full keys, the versions of packages and machine, and digests of what ran."""
    keys = recipe_of(run)
    if not keys:
        raise Refused(404, f"{run.name} has no recipe.yaml: it is written when training begins")
    return reply({"recipe": keys, "versions": _versions(run), "digests": _digests(run)})


@router.get("/recipe/differences")
def differences(request: Request, run: Run, to: str | None = None) -> Response:
    """Keys that differ, ``[key, this run's value, the other's, whether every run differs in it]``.

    Args:
        to: another run; None: the default recipe of the installed version.
    """
    theirs = default_recipe() if to is None else recipe_of(other_run(request, to))
    return reply({"to": to, "differences": told_apart(recipe_of(run), theirs)})


def told_apart(ours: Mapping[str, Any], theirs: Mapping[str, Any]) -> list[list[Any]]:
    """Rows of ``differences``."""
    found = recipe_differences(ours, theirs)
    return [
        [key, mine, other, key in OF_THE_RUN or _own(ours, mine) or _own(theirs, other)]
        for key, (mine, other) in found.items()
    ]


def _own(recipe: Mapping[str, Any], value: Any) -> bool:
    """Whether a value is the run's name, or lies in its folder."""
    name, folder = recipe.get("lego.run.name"), recipe.get("lego.run.folder")
    if not name or not isinstance(value, str):
        return False
    return value == name or f"{value}/".startswith(f"{folder}/{name}/")


def default_recipe() -> dict[str, Any]:
    """The default recipe by full keys. ``Refused`` where it does not compose (verl is not installed)."""
    with _composing:  # Hydra keeps what it composes in one place for all threads
        return _default_recipe()


@lru_cache(maxsize=1)
def _default_recipe() -> dict[str, Any]:
    from lego_verl.compose import compose_recipe

    try:
        composed = OmegaConf.to_container(compose_recipe([]), resolve=True, enum_to_str=True)
    except (ConfigError, OmegaConfBaseException) as error:
        raise Refused(404, f"the default recipe cannot be composed here: {error}") from None
    return dict(flat_keys(composed))


def _versions(run: RunFolder) -> dict[str, Any]:
    try:
        read = json.loads(run.versions.read_text())
    except (OSError, ValueError):
        return {}
    return read if isinstance(read, dict) else {}


def _digests(run: RunFolder) -> list[dict[str, Any]]:
    """What the newest trials say that they were made with, and the recipe file's own digest."""
    found: list[dict[str, Any]] = []
    try:
        digest = hashlib.sha256(run.recipe.read_bytes()).hexdigest()
        found.append({"what": "recipe.yaml (sha256)", "value": digest, "trials": None})
    except OSError:
        pass
    if not run.store.exists():
        return found
    with opened(run) as db:
        rows = db.execute("SELECT harness, versions FROM trials WHERE state = 'finished' ORDER BY id DESC LIMIT 2000")
        counted: dict[tuple[str, str], int] = {}
        for harness, text in rows:
            versions = json.loads(text)
            for name in ("lego_verl", "runtime", "sandbox"):
                if versions.get(name) is not None:
                    what = f"{name} of {harness}" if name == "runtime" else name
                    key = (what, str(versions[name]))
                    counted[key] = counted.get(key, 0) + 1
    return found + [{"what": what, "value": value, "trials": n} for (what, value), n in sorted(counted.items())]

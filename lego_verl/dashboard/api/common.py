"""What all routers share: the run of an address, its store, answers and refusals."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Literal

import orjson
import yaml
from fastapi import Depends, Request, Response

from lego_verl.dashboard.indexing import Indexer
from lego_verl.dashboard.live import Alive
from lego_verl.dashboard.runs import Runs
from lego_verl.monitor import queries
from lego_verl.monitor.run_folder import RunFolder

Split = Literal["train", "heldout"]


NOT_YET = 202
"""The status of an answer that is to be asked for again. No error: a browser would log one for each that is asked."""


class Refused(Exception):
    """An answer that is none: a status and one line that says what to do."""

    def __init__(self, status: int, why: str, **more: Any) -> None:
        super().__init__(why)
        self.status, self.body = status, {"error": why, **more}


@dataclass
class Shared:
    """What the application keeps while it runs (``request.app.state.shared``)."""

    runs: Runs
    indexer: Indexer = field(default_factory=Indexer)
    alive: Alive = field(default_factory=Alive)
    ending: threading.Event = field(default_factory=threading.Event)
    """Set when the server is to end: pages that follow a run would keep it for ever."""


def shared(request: Request) -> Shared:
    found: Shared = request.app.state.shared
    return found


def other_run(request: Request, name: str) -> RunFolder:
    """The run of a name. ``Refused`` (404) where there is none."""
    found = shared(request).runs.find(name)
    if found is None:
        raise Refused(404, f"there is no run of the name {name[:80]!r}; the page at #/ lists those there are")
    return found


def _run(request: Request, run: str) -> RunFolder:
    found = other_run(request, run)
    shared(request).indexer.want(found, first=True)
    return found


Run = Annotated[RunFolder, Depends(_run)]
"""The run that an address names."""


@contextmanager
def opened(run: RunFolder) -> Iterator[sqlite3.Connection]:
    """A run's store, to read.

    Raises:
        Refused: ``NOT_YET`` where there is none, or only its beginning; 503 where it cannot be read.
    """
    if not run.store.exists():
        why = "its store is being made" if run.events.exists() else "nothing has happened in it yet"
        raise Refused(NOT_YET, f"{run.name}: {why}", waiting=True)
    try:
        with queries.read_store(run.store) as db:
            yield db
    except sqlite3.Error as error:
        if any(passing in str(error) for passing in ("locked", "no such table")):  # its tables follow the file
            raise Refused(NOT_YET, f"{run.name}: its store is being made", waiting=True) from error
        raise Refused(503, f"the store of {run.name} cannot be read: {error}") from error


def recipe_of(run: RunFolder) -> dict[str, Any]:
    """A run's recipe by full keys. Read once: the file is large, and does not change but by a resume."""
    try:
        return _recipe(run.recipe, run.recipe.stat().st_mtime_ns)
    except OSError:
        return {}


def planned(run: RunFolder) -> dict[str, int | None]:
    """``total_steps`` of a run, and the ``slots`` that its trials run in; None where its recipe does not say.

    By libyaml: OmegaConf takes half a second for a recipe of a thousand lines, and a page lists every run.
    """
    try:
        return _planned(run.recipe, run.recipe.stat().st_mtime_ns)
    except (OSError, yaml.YAMLError):
        return {"total_steps": None, "slots": None}


@lru_cache(maxsize=256)
def _planned(path: Path, _changed: int) -> dict[str, int | None]:
    keys = yaml.load(path.read_text(), getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    found: dict[str, int | None] = {}
    for name, way in {"total_steps": "trainer.total_training_steps", "slots": "lego.sandbox.slots"}.items():
        value: Any = keys
        for key in way.split("."):
            value = value.get(key) if isinstance(value, dict) else None
        found[name] = value if isinstance(value, int) else None
    return found


@lru_cache(maxsize=64)
def _recipe(path: Path, _changed: int) -> dict[str, Any]:
    return queries.recipe(path)


def trial_folder(run: RunFolder, step: int, trial: str) -> Path:
    """A trial's folder, whether or not it is there. ``Refused`` (404) for a name that is no folder's."""
    if step < 0 or trial in ("", ".", "..") or any(character in trial for character in "/\\\0"):
        raise Refused(404, "there is no trial of this name")
    folder = run.trial(step, trial)
    if not folder.resolve().is_relative_to(run.trials.resolve()):
        raise Refused(404, "there is no trial of this name")
    return folder


def reply(data: Any, **headers: str) -> Response:
    """JSON. Half a surrogate pair, which no UTF-8 holds, goes as an escape; NaN is null."""
    try:
        body = orjson.dumps(data, option=orjson.OPT_NON_STR_KEYS)
    except TypeError:
        body = json.dumps(data, default=str).encode()
    return Response(body, media_type="application/json", headers=headers)

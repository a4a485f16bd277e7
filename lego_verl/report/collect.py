"""Everything that a report says, read from a run's folder and its store."""

from __future__ import annotations

import json
import re
import sqlite3
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lego_verl.export.redact import Redactor
from lego_verl.monitor import queries
from lego_verl.monitor.alerts import alert_events
from lego_verl.monitor.behaviour.measures import MEASURES
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.monitor.store_text import harmless
from lego_verl.report.chosen import chosen
from lego_verl.report.figures import Figure, figures
from lego_verl.report.reading import ReadTrial, read_trial

_TASKS = 40
_ALERTS = 60
_SECRET_KEY = re.compile(r"(api_?key|password|passwd|secret|credential|access_?token|auth_?token)", re.IGNORECASE)


@dataclass(frozen=True)
class Report:
    """What a template shows. All texts are harmless and without secrets; none is escaped."""

    name: str
    made: str
    facts: Sequence[tuple[str, str]]
    alerts: Sequence[Mapping[str, Any]]
    changes: Sequence[tuple[str, str]]
    figures: Sequence[Figure]
    went: Mapping[str, int]
    tasks: Sequence[Mapping[str, Any]]
    more_tasks: int
    trials: Sequence[ReadTrial]
    recipe: Sequence[tuple[str, str]]
    all_keys: Sequence[tuple[str, str]]
    versions: Sequence[tuple[str, str]]
    redacted: int
    """Secrets that were taken out."""


def collect(run: RunFolder, db: sqlite3.Connection, redactor: Redactor) -> Report:
    recipe = {key: _clean(key, value, redactor) for key, value in queries.recipe(run.recipe).items()}
    overview = queries.overview(db, total_steps=_steps(recipe))
    grid = queries.tasks(db)
    went: dict[str, int] = {}
    for task in grid:
        went[task["went"]] = went.get(task["went"], 0) + 1
    shown = sorted(grid, key=lambda task: (_ORDER.index(task["went"]), task["task"]))[:_TASKS]
    trials = [read_trial(run, each, redactor) for each in chosen(db)]
    alerts = [
        {key: harmless(redactor.text(str(value)), 800) for key, value in each.items()} for each in alert_events(db)
    ]
    return Report(
        harmless(run.name, 200),
        time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime()),
        _facts(overview, recipe),
        alerts[-_ALERTS:],
        _changes(db),
        figures(db),
        went,
        [{**task, "task": harmless(task["task"], 160)} for task in shown],
        len(grid) - len(shown),
        trials,
        [(key, value) for key, value in recipe.items() if key.startswith("lego.")],
        list(recipe.items()),
        _versions(run, redactor),
        redactor.found.total(),
    )


_ORDER = ("regressed", "improved", "mixed", "never", "always", "ungraded")


def _steps(recipe: Mapping[str, str]) -> int | None:
    value = recipe.get("trainer.total_training_steps", "")
    return int(value) if value.isdigit() else None


def _facts(view: Mapping[str, Any], recipe: Mapping[str, str]) -> list[tuple[str, str]]:
    total = f" of {view['total_steps']}" if view["total_steps"] else ""
    facts = [("steps", f"{view['step']}{total}")]
    steps = view["recent_steps"]
    if view["solve_rate"]:
        facts.append((f"solved, last {steps} steps", _rate(view["solve_rate"])))
    if view["solve_rate_before"]:
        facts.append(("solved, first steps", _rate(view["solve_rate_before"])))
    if view["heldout"] and view["heldout"]["solve_rate"]:
        facts.append((f"held-out, step {view['heldout']['step']}", _rate(view["heldout"]["solve_rate"])))
    facts.append((f"trials, last {steps} steps", f"{view['trials']}, of them dropped {view['dropped']}"))
    if view["seconds_a_step"] is not None:
        facts.append(("time of a step", f"{view['seconds_a_step']:.0f} s"))
    for key, label in (("pearson", "rollout against trainer (Pearson)"), ("entropy", "entropy")):
        if (value := view["metrics"][key]) is not None:
            facts.append((label, f"{value['value']:.5g}"))
    for key, label in (
        ("lego.harness.name", "harness"),
        ("lego.policy.model", "policy"),
        ("algorithm.adv_estimator", "algorithm"),
        ("lego.sandbox.backend", "sandbox"),
    ):
        if value := recipe.get(key):
            facts.append((label, value))
    return facts


def _rate(rate: Mapping[str, Any]) -> str:
    return f"{rate['value']:.2f} ({rate['low']:.2f} to {rate['high']:.2f}; {rate['solved']} of {rate['graded']})"


def _changes(db: sqlite3.Connection) -> list[tuple[str, str]]:
    found = queries.trends(db)
    changes = []
    for measure in MEASURES:
        for where, how in (("same_tasks", "the same tasks"), ("steps", "all steps")):
            trend = found[measure.name][where]
            if trend["direction"] in ("rises", "falls"):
                changes.append((measure.name.replace("_", " "), f"{trend['says']} [{how}]"))
                break
    return changes


def _versions(run: RunFolder, redactor: Redactor) -> list[tuple[str, str]]:
    try:
        known = json.loads(run.versions.read_text())
    except (OSError, ValueError):
        return []
    return [(harmless(key, 80), _clean(key, value, redactor)) for key, value in dict(known).items()]


def _clean(key: str, value: Any, redactor: Redactor) -> str:
    """A value of the recipe for a reader who is nobody's colleague."""
    if value is not None and not isinstance(value, bool | int | float) and _SECRET_KEY.search(key.split(".")[-1]):
        redactor.found["recipe"] += 1
        return "[redacted: recipe]"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return harmless(redactor.text(str(value)), 400)

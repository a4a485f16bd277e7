"""Small runs in the real store, step by step, with a fault from some step on."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from monitor_run import record

from lego_verl.monitor import queries
from lego_verl.monitor.alerts import Watched, replay
from lego_verl.monitor.behaviour.count import Counts
from lego_verl.monitor.store import Store
from lego_verl.monitor.store_rows import TrialRows
from lego_verl.trial.outcome import Outcome

METRICS = {
    "seconds": 60.0,
    "entropy": 0.4,
    "learning_rate": 1e-6,
    "alignment": {
        "overall": {"effective_share": 0.99},
        "by_lag": {"0": {"tokens": 100, "pearson_probabilities": 0.99999}},
    },
    "canary_arrived": 1.0,
    "canary_change": 0.05,
    "reward_agreement": {"equal": 1.0, "order": 1.0, "pairs": 12},
}  # fmt: skip
Trial = dict[str, Any]


def counts(*, turns: int = 4, silent: int = 0, last: str = "submit") -> TrialRows:
    calls = turns - silent
    made = Counts(turns=turns, silent_turns=silent, tool_calls=calls, reads=calls, last_act=last)
    sampled = [(i, 0, "main", 9, 5, "stop", 0.5, 1, -0.4, 20, 4, 1, 0, "read", "cat a.py") for i in range(turns)]
    return TrialRows(sampled, [(0, "first", turns, 9, 30, 15, 1, 1, 1)], made.as_dict())


def make_steps(
    path: Path,
    steps: int = 10,
    *,
    groups: int = 2,
    members: int = 4,
    trial: Callable[[int, int], Trial] = lambda step, number: {},
    metrics: Callable[[int], Mapping[str, Any]] = lambda step: {},
) -> Path:
    """A store with so many steps; half of each group is solved.

    Args:
        trial: what is other of the trial of that step and number: ``outcome``, ``rows``, ``retried`` (an outcome of an
            attempt before), ``versions``.
        metrics: what is other of a step's metrics.
    """
    with Store(path) as store:
        for step in range(1, steps + 1):
            trained, why = [], {}
            for number in range(groups * members):
                group, member = divmod(number, members)
                name, task = f"{step}-{number}", f"task{group}"
                about = {"outcome": Outcome.SOLVED if member % 2 else Outcome.UNSOLVED, "rows": counts()}
                about |= trial(step, number)
                store.started(step, "train", name, task, 1)
                if "retried" in about:
                    store.retried(step, "train", name, str(about["retried"]), "planted")
                versions = about.get("versions", {})
                more = {"versions": versions, "attempts": 1 + ("retried" in about)}
                made = record(name, about["outcome"], task=task, group=f"{step}-{group}", **more)
                store.finished(step, "train", made, about["rows"])
                if about["outcome"].treatment.value == "drop":
                    why[name] = str(about["outcome"])
                else:
                    trained.append(name)
            store.closed(step, "train", trained, why)
            store.metrics(step, {**METRICS, **metrics(step)})
    return path


def raised(path: Path, watched: Watched | None = None) -> dict[str, int]:
    """The alerts that a run raises, with the step in which each opened first."""
    found: dict[str, int] = {}
    with queries.read_store(path) as db:
        for step, each in replay(db, watched or Watched(), run="made up"):
            if each["state"] == "open":
                found.setdefault(each["name"], step)
    return found


def ungraded_rows(step: int, number: int) -> Trial:
    """From step 2 on every third trial has no verdict."""
    return {"outcome": Outcome.GRADER_FAILED} if step >= 2 and number % 3 == 0 else {}

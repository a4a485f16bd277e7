"""Two sides compared: intervals that are what they are said to be."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from monitor_run import record, rows

from lego_verl.monitor.behaviour.measures import Measure
from lego_verl.monitor.queries import read_store
from lego_verl.monitor.queries.difference import (
    COMPARED,
    SOLVE_RATE,
    differences,
    moments,
    newcombe,
    ratio_and_error,
    same_tasks,
)
from lego_verl.monitor.store import Store
from lego_verl.trial.outcome import Outcome


def test_newcombes_interval_is_that_of_his_paper() -> None:
    """Table II, method 10: 56/70 - 48/80 has 0.0524 to 0.3339, and 10/10 - 0/10 has 0.6075 to 1."""
    assert newcombe((48, 56), (80, 70)) == pytest.approx((0.0524, 0.3339), abs=5e-5)
    assert newcombe((0, 10), (10, 10)) == pytest.approx((0.6075, 1.0), abs=5e-5)


def test_the_error_of_a_ratio_covers_what_groups_differ_by() -> None:
    """95 of 100 intervals hold the true ratio, where a formula for independent trials would hold it in far fewer."""
    generator = np.random.default_rng(3)
    held, runs, groups, members = 0, 2000, 40, 8
    for _ in range(runs):
        of_group = generator.beta(2, 2, groups)  # tasks differ: their mean is 0.5
        a = generator.binomial(members, of_group)
        b = np.full(groups, members)
        sums = (float(values.sum()) for values in (a, b, a * a, a * b, b * b))
        ratio, error = ratio_and_error(groups, *sums)  # type: ignore[misc]
        held += abs(ratio - 0.5) <= 1.959964 * error
    assert 0.93 < held / runs < 0.97


def test_of_nothing_there_is_none_and_of_one_group_no_error() -> None:
    assert ratio_and_error(0, 0, 0, 0, 0, 0) is None
    ratio, error = ratio_and_error(1, 1, 2, 1, 2, 4)  # type: ignore[misc]
    assert ratio == 0.5
    assert math.isnan(error)


def store_of(path: Path, solved: dict[int, list[int]]) -> Path:
    """By step the solved ones of each group's four trials."""
    with Store(path) as store:
        for step, groups in solved.items():
            for number, count in enumerate(groups):
                for member in range(4):
                    name, group = f"{step}-{number}-{member}", f"{step}-{number}"
                    outcome = Outcome.SOLVED if member < count else Outcome.UNSOLVED
                    store.finished(step, "train", record(name, outcome, task=f"t{number}", group=group), rows())
    return path


def test_moments_are_sums_over_groups_and_differences_say_what_is_clear(tmp_path: Path) -> None:
    with read_store(store_of(tmp_path / "s", {1: [0, 1, 0, 1, 2, 0], 2: [4, 3, 4, 4, 3, 4]})) as db:
        first, second = moments(db, last_step=1), moments(db, first_step=2)
        whole = moments(db, measures=(SOLVE_RATE,))["solve_rate"]
    assert first["solve_rate"] == (6, 4.0, 24.0, 6.0, 16.0, 96.0)
    assert whole == (12, 26.0, 48.0, 6.0 + 82.0, 4 * 26.0, 192.0)
    told = {row["name"]: row for row in differences(first, second)}
    solve = told["solve_rate"]
    assert solve["difference"] == pytest.approx(22 / 24 - 4 / 24)
    assert solve["low"] < solve["difference"] < solve["high"]
    assert solve["low"] <= newcombe((4, 22), (24, 24))[0] + 1e-12
    assert solve["clear"] is True
    assert told["turns"]["difference"] == 0
    assert told["turns"]["clear"] is False
    assert set(told) == {measure.name for measure in COMPARED}


def test_one_side_without_trials_has_no_difference(tmp_path: Path) -> None:
    with read_store(store_of(tmp_path / "s", {1: [2, 2]})) as db:
        here, nothing = moments(db), moments(db, first_step=9)
    (row,) = differences(here, nothing, (SOLVE_RATE,))
    assert row["first"]["value"] == 0.5
    assert (row["second"], row["difference"], row["clear"]) == (None, None, None)


def test_only_tasks_of_both_sides_are_held_against_each_other() -> None:
    told = same_tasks({"a": (1, 4), "b": (4, 4), "c": (1, 2), "d": (0, 0)}, {"a": (3, 4), "b": (0, 4), "d": (1, 1)})
    assert [(row["task"], row["change"]) for row in told["tasks"]] == [("b", -1.0), ("a", 0.5)]
    assert (told["only_first"], told["only_second"]) == (2, 1)
    assert told["trend"]["direction"] == "too little to tell"


def test_a_measure_may_be_of_any_two_sums() -> None:
    of = Measure("x", "calls", "trials", "count", "")
    side = {"x": (2, 6.0, 4.0, 20.0, 12.0, 8.0)}
    (row,) = differences(side, side, (of,))
    assert row["first"]["value"] == 1.5
    assert row["difference"] == 0

"""Rates and intervals: every trial that was asked for is counted, once."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_verl.config import ConfigError
from lego_verl.evaluate.counts import Count, count, wilson
from lego_verl.evaluate.plan import Cell, Planned, plan
from lego_verl.trial.outcome import Outcome, Treatment
from lego_verl.trial.record import TrialRecord


def task(name: str) -> Any:
    class Named:
        pass

    named = Named()
    named.name = name  # type: ignore[attr-defined]
    return named


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    # Published examples of the method, and the closed form for a share of 1.
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718),
     (29, 29, 0.8830, 1.0)],
)  # fmt: skip
def test_intervals_are_those_of_the_literature(successes: int, trials: int, low: float, high: float) -> None:
    assert wilson(successes, trials) == pytest.approx((low, high), abs=5e-5)


@given(st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_an_interval_holds_its_share_and_narrows(counts: tuple[int, int]) -> None:
    successes, trials = counts
    low, high = wilson(successes, trials)
    assert 0 <= low <= successes / trials <= high <= 1
    more = wilson(4 * successes, 4 * trials)
    assert more[1] - more[0] < high - low


def test_no_trials_have_no_interval() -> None:
    with pytest.raises(ValueError, match="at least one"):
        wilson(0, 0)
    assert Count("h", 3).solve_rate is Count("h", 3).interval is None


def test_the_plan_is_everything_in_an_order_in_which_cells_keep_step() -> None:
    planned = plan(["a", "b"], [2, 8], [task("x"), task("y")], repeat=3)
    assert len(planned) == len({each.name for each in planned}) == 2 * 2 * 2 * 3
    assert {each.cell for each in planned[:4]} == {Cell(h, t) for h in ("a", "b") for t in (2, 8)}
    more = plan(["b", "c", "a"], [8, 2], [task("y"), task("x"), task("z")], repeat=4)
    assert {each.name for each in planned} < {each.name for each in more}


@pytest.mark.parametrize(
    ("harnesses", "budgets", "tasks", "repeat", "says"),
    [
        ([], [3], ["x"], 1, r"harnesses=\[\]: name at least one"),
        (["a"], [], ["x"], 1, r"budgets=\[\]: name at least one"),
        (["a", "a"], [3], ["x"], 1, r"harnesses=\[a,a\] names one of them twice"),
        (["a"], [3, 3], ["x"], 1, r"budgets=\[3,3\] names one of them twice"),
        (["a"], [3, 0], ["x"], 1, "budgets=0 must be at least 1"),
        (["a"], [3], ["x"], 0, "repeat=0 must be at least 1"),
        (["a", "a-3"], [3], ["3-x", "x"], 1, "the same name"),
    ],
)
def test_a_plan_that_cannot_be(
    harnesses: list[str], budgets: list[int], tasks: list[str], repeat: int, says: str
) -> None:
    with pytest.raises(ConfigError, match=says):
        plan(harnesses, budgets, [task(name) for name in tasks], repeat)


ENDINGS = st.one_of(
    st.none(),
    st.tuples(
        st.sampled_from([o for o in Outcome if o.treatment is not Treatment.DROP]), st.sampled_from([0.0, 0.5, 1.0])
    ),
    st.tuples(st.sampled_from([o for o in Outcome if o.treatment is Treatment.DROP]), st.none()),
)


@given(st.lists(ENDINGS, min_size=1, max_size=40))
def test_every_trial_is_in_exactly_one_place(endings: list[Any]) -> None:
    planned = [Planned(Cell("h", 3), task(f"t{number}"), 1) for number in range(len(endings))]
    records = {
        each.name: TrialRecord(each.name, each.task.name, ending[0], reward=ending[1], error="why", calls=2)
        for each, ending in zip(planned, endings, strict=True)
        if ending is not None
    }
    (found,) = count(planned, records)
    solved = sum(ending is not None and ending[1] == 1.0 for ending in endings)
    dropped = [ending[0] for ending in endings if ending is not None and ending[1] is None]
    assert found.requested == len(endings) == found.solved + found.failed + found.infrastructure + found.pending
    assert (found.solved, found.infrastructure) == (solved, len(dropped))
    assert sum(found.outcomes.values()) == len(records)
    assert found.errors == {str(outcome): "why" for outcome in dropped}
    if found.pending:
        assert found.solve_rate is None
    else:
        assert found.solve_rate == solved / len(endings)


def test_infrastructure_lowers_the_rate_and_not_that_of_the_graded() -> None:
    found = Count("h", 3, requested=10, solved=4, failed=1, infrastructure=5)
    assert (found.solve_rate, found.solve_rate_graded) == (0.4, 0.8)
    assert found.as_dict()["interval"] == wilson(4, 10)


def test_cells_are_counted_apart() -> None:
    planned = plan(["a", "b"], [2], [task("x"), task("y")], repeat=1)
    records = {"a-2-x-1": TrialRecord("a-2-x-1", "x", Outcome.TURN_LIMIT, reward=1.0)}
    of_a, of_b = count(planned, records)
    assert (of_a.harness, of_a.solved, of_a.pending) == ("a", 1, 1)
    assert (of_b.harness, of_b.solved, of_b.pending) == ("b", 0, 2)

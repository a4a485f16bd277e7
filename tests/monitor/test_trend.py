"""Trends: what changes is said to, what does not is not, and few points say nothing."""

from __future__ import annotations

import numpy as np
import pytest

from lego_verl.monitor.behaviour.trend import LEVEL, over_steps, over_tasks


@pytest.mark.parametrize(("slope", "direction"), [(0.01, "rises"), (-0.01, "falls")])
def test_a_trend_in_noise_is_seen(slope: float, direction: str) -> None:
    rng = np.random.default_rng(1)
    steps = list(range(1, 61))
    trend = over_steps(steps, [slope * step + 0.05 * rng.standard_normal() for step in steps], looked_at=21)
    assert trend.direction == direction
    assert trend.change == pytest.approx(59 * slope, abs=0.1)
    assert trend.says.startswith(f"{direction}: ")


def test_noise_is_no_trend_as_often_as_is_said() -> None:
    rng = np.random.default_rng(2)
    series = [over_steps(list(range(40)), list(rng.standard_normal(40))) for _ in range(500)]
    seen = sum(trend.direction in ("rises", "falls") for trend in series)
    assert seen <= 3 * LEVEL * 500


def test_a_series_that_resembles_its_neighbour_is_no_trend_too_often() -> None:
    """Without blocks of steps, a third of such series would be taken for trends."""
    rng = np.random.default_rng(3)
    seen = 0
    for _ in range(200):
        noise, value = [], 0.0
        for _ in range(120):
            value = 0.8 * value + rng.standard_normal()
            noise.append(value)
        seen += over_steps(list(range(120)), noise).direction in ("rises", "falls")
    assert seen <= 0.08 * 200


def test_a_step_change_a_spike_and_a_constant() -> None:
    steps = list(range(30))
    assert over_steps(steps, [0.0] * 15 + [1.0] * 15).direction == "rises"
    assert over_steps(steps, [0.5] * 29 + [100.0]).direction == "no clear change"
    assert over_steps(steps, [0.5] * 30).p == 1.0


def test_few_points_and_gaps() -> None:
    assert over_steps([1, 2, 3], [0.0, 0.5, 1.0]).direction == "too little to tell"
    assert over_steps([], []).says == "too little to tell: 0 points"
    values = [None if step % 2 else float(step) for step in range(40)]
    assert over_steps(list(range(40)), values).direction == "rises"


def test_tasks_are_compared_with_themselves() -> None:
    """Tasks that came only early or only late, and are much easier, do not matter."""
    first = {f"t{number}": number / 20 for number in range(20)} | {"easy": 50.0}
    last = {f"t{number}": number / 20 + 0.01 for number in range(20)} | {"hard": -50.0}
    trend = over_tasks(first, last, looked_at=21)
    assert (trend.direction, trend.points) == ("rises", 20)
    assert trend.p == pytest.approx(2 / 2**20)
    assert "of 20 tasks 20 rose and 0 fell" in trend.says
    assert over_tasks(last, first).direction == "falls"
    assert over_tasks(first, first).direction == "too little to tell"
    mixed = {task: value + (0.1 if number % 2 else -0.1) for number, (task, value) in enumerate(first.items())}
    assert over_tasks(first, mixed).direction == "no clear change"

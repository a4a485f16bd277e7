"""What monitoring costs is counted once, and by the clock that it is a cost by."""

from __future__ import annotations

import time

import pytest

from lego_verl.monitor.spent import Spent


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def test_what_is_within_itself_counts_once_also_when_it_fails() -> None:
    clock = Clock()
    spent = Spent(clock)
    with spent:
        clock.now += 1
        with spent:
            clock.now += 2
        clock.now += 4
    clock.now += 100

    def fail() -> None:
        with spent:
            clock.now += 8
            raise ValueError("full")

    with pytest.raises(ValueError, match="full"):
        fail()
    assert spent.take() == 15
    assert spent.take() == 0


def test_processor_time_leaves_out_what_was_waited_for() -> None:
    wall, worked = Spent(), Spent(time.thread_time)
    with wall, worked:
        time.sleep(0.2)
    assert wall.take() >= 0.2
    assert 0 <= worked.take() < 0.1

"""How often chance raises an alert where nothing is wrong."""

from __future__ import annotations

from healthy_runs import healthy_run

from lego_verl.monitor.alerts import STEP_ALERTS, AlertBook, Watched, look

RUNS = 40
"""Of 100 steps each. `python -m tests…` is not needed: ``false_alerts(range(400))`` is the same over more of them."""


def false_alerts(seeds: range) -> list[str]:
    told = []
    for seed in seeds:
        book = AlertBook("healthy")
        for found in healthy_run(seed):
            news = book.take(found.step, look(found, Watched()), STEP_ALERTS)
            told += [f"run {seed}, step {found.step}: {each['message']}" for each in news if each["state"] == "open"]
    return told


def test_healthy_runs_raise_none() -> None:
    assert false_alerts(range(RUNS)) == []

"""Each planted fault raises its alert within two steps, and no other; a healthy run raises none."""

from __future__ import annotations

import math
import sqlite3
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from alert_store import Trial, counts, make_steps, raised

from lego_verl.compose import compose_recipe
from lego_verl.config import typed
from lego_verl.monitor.alert_settings import (
    AlertSettings,
    DiskAlert,
    DroppedAlert,
    EntropyAlert,
    SilenceAlert,
    ToolUseAlert,
)
from lego_verl.monitor.alerts import STEP_ALERTS, Evidence, StepFacts, Watched, look
from lego_verl.monitor.alerts.chance import chance_of_as_many, sigmas_between
from lego_verl.monitor.alerts.clock import disk, silence
from lego_verl.monitor.alerts.dropped import dropped
from lego_verl.monitor.alerts.entropy import entropy
from lego_verl.monitor.alerts.tool_use import tool_use
from lego_verl.monitor.store import Store
from lego_verl.trial.outcome import Outcome

FROM = 6
"""The step from which on the fault is there."""


def test_a_healthy_run_raises_none(tmp_path: Path) -> None:
    assert raised(make_steps(tmp_path / "s", 30)) == {}


def silent(step: int, number: int) -> Trial:
    return {"rows": counts(turns=4, silent=4, last="text")} if step >= FROM else {}


def ungraded(step: int, number: int) -> Trial:
    return {"outcome": Outcome.GRADER_FAILED} if step >= FROM and number % 3 == 0 else {}


def run_again(step: int, number: int) -> Trial:
    """Each of them ended well at last: only its attempts tell."""
    return {"retried": Outcome.SANDBOX_LOST} if step >= FROM and number % 2 else {}


def unsolved(step: int, number: int) -> Trial:
    return {"outcome": Outcome.UNSOLVED} if step >= FROM else {}


def stale(step: int, number: int) -> Trial:
    return {"outcome": Outcome.STALE} if step >= FROM and number % 3 == 0 else {}


@pytest.mark.parametrize(
    ("fault", "alerts"),
    [
        (silent, {"tool_use"}),
        (ungraded, {"infrastructure", "dropped"}),
        (run_again, {"infrastructure"}),
        (stale, {"staleness", "dropped"}),
    ],
)
def test_what_trials_show(tmp_path: Path, fault: Any, alerts: set[str]) -> None:
    found = raised(make_steps(tmp_path / "s", FROM + 4, trial=fault))
    assert found.keys() == alerts
    assert max(found.values()) <= FROM + 1, "within two steps"


def from_then_on(**values: Any) -> Any:
    return lambda step: values if step >= FROM else {}


def disordered(step: int) -> dict[str, Any]:
    return {"reward_agreement": {"equal": 0.5, "order": 0.2, "pairs": 12}} if step >= FROM else {}


@pytest.mark.parametrize(
    ("metrics", "alert", "within"),
    [
        (disordered, "rewards", 0),
        (from_then_on(canary_change=0.0), "canary", 1),
        (from_then_on(canary_arrived=0.5), "canary", 0),
        (from_then_on(alignment={"by_lag": {"0": {"tokens": 9, "pearson_probabilities": 0.9993}}}), "alignment", 0),
        (from_then_on(alignment={"overall": {"effective_share": 0.2}}), "effective_share", 0),
        (from_then_on(alignment={"by_lag": {"2": {"tokens": 9}, "7": {"tokens": 9}}}), "staleness", 0),
        (from_then_on(entropy=0.03), "entropy", 2),
    ],
)
def test_what_metrics_show(tmp_path: Path, metrics: Any, alert: str, within: int) -> None:
    assert raised(make_steps(tmp_path / "s", FROM + 3, metrics=metrics)) == {alert: FROM + within}


def test_a_solve_rate_that_falls_is_seen_and_one_that_rises_is_not(tmp_path: Path) -> None:
    found = raised(make_steps(tmp_path / "falls", 20, groups=8, trial=unsolved))
    assert found["solve_rate"] == FROM + 1
    assert "tool_use" not in found

    def solved(step: int, number: int) -> Trial:
        return {"outcome": Outcome.SOLVED if number % 4 < min(step // 4, 3) else Outcome.UNSOLVED}

    assert raised(make_steps(tmp_path / "rises", 20, groups=8, trial=solved)) == {}


def test_groups_without_a_signal_are_seen(tmp_path: Path) -> None:
    found = raised(make_steps(tmp_path / "s", 20, groups=8, trial=lambda step, number: {"outcome": Outcome.SOLVED}))
    assert found.keys() == {"signal"}


def test_a_last_turn_without_a_call_is_how_some_harnesses_end(tmp_path: Path) -> None:
    """Trials become shorter as the policy learns: a third of the turns has no call then, and nothing is wrong."""

    def shorter(step: int, number: int) -> Trial:
        return {"rows": counts(turns=10 if step < FROM else 3, silent=1, last="text")}

    def nothing_else(step: int, number: int) -> Trial:
        return {"rows": counts(turns=1, silent=int(step >= FROM), last="text")}

    assert raised(make_steps(tmp_path / "s", trial=shorter)) == {}
    assert raised(make_steps(tmp_path / "t", trial=nothing_else)) == {"tool_use": FROM}


def test_without_an_entropy_log_probabilities_tell(tmp_path: Path) -> None:
    def sure(step: int, number: int) -> Trial:
        rows = counts()
        if step < FROM:
            return {"rows": rows}
        calls = [(*row[:8], -0.01, *row[9:]) for row in rows.calls]
        return {"rows": type(rows)(calls, rows.segments, rows.behaviour)}

    path = make_steps(tmp_path / "s", 9, trial=sure, metrics=lambda step: {"entropy": None})
    assert raised(path) == {"entropy": FROM + 2}


def test_a_faulty_rule_is_said_and_stops_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    wrong: Any = Evidence(3, steps=[None], rates={1: [1.0], 3: [0.0]})  # type: ignore[list-item]
    assert look(wrong, Watched()) == {}
    assert "ALERTS: the rule " in capsys.readouterr().err


def test_every_alert_can_be_switched_off_singly(tmp_path: Path) -> None:
    path = make_steps(tmp_path / "s", FROM + 4, trial=ungraded)
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("lego:\n  guard: {min_pearson: 0.9}\n  monitor:\n    alerts:\n      dropped: {enabled: false}\n")
    watched = Watched.of(recipe)
    assert watched.min_pearson == 0.9
    assert raised(path, watched).keys() == {"infrastructure"}
    for name in STEP_ALERTS:
        settings = AlertSettings()
        getattr(settings, name).enabled = False
        assert name not in raised(path, Watched(settings))


def test_the_recipe_shows_the_defaults() -> None:
    composed = typed(compose_recipe(["monitor.alerts.silence.enabled=false"])).monitor.alerts
    assert not composed.silence.enabled
    assert composed == replace(AlertSettings(), silence=SilenceAlert(enabled=False))


def test_thresholds_are_where_they_say() -> None:
    def steps(*lost: int) -> Evidence:
        facts = [StepFacts(i, trials=100, dropped=Counter(stale=n)) for i, n in enumerate(lost, 1)]
        return Evidence(len(lost), facts)

    assert dropped(steps(0, 0, 0, 11), DroppedAlert()) is not None
    assert dropped(steps(0, 0, 0, 9), DroppedAlert()) is None
    assert dropped(steps(30), DroppedAlert()) is not None
    assert dropped(steps(29), DroppedAlert()) is None
    half = {1: [0.0] * 50, 2: [0.5] * 50}
    assert tool_use(Evidence(2, silent=half), ToolUseAlert()) is not None
    assert tool_use(Evidence(2, silent=half), ToolUseAlert(rise=0.6)) is None
    assert tool_use(Evidence(1, silent={1: [0.81] * 6}), ToolUseAlert()) is not None, "from the beginning"
    assert tool_use(Evidence(1, silent={1: [0.79] * 6}), ToolUseAlert()) is None
    assert tool_use(Evidence(1, silent={1: [0.81] * 5}), ToolUseAlert()) is None, "too few trials"
    falling = {"entropy": dict.fromkeys(range(1, 6), 1.0) | dict.fromkeys(range(6, 9), 0.1)}
    assert entropy(Evidence(8, metrics=falling), EntropyAlert()) is not None
    assert entropy(Evidence(8, metrics=falling), EntropyAlert(share=0.09)) is None


def test_the_statistics() -> None:
    assert sigmas_between([0.0] * 8, [1.0] * 8) == pytest.approx(4.0)
    assert sigmas_between([0.5] * 8, [0.5] * 8) == sigmas_between([1.0], [0.0] * 9) == 0.0
    assert chance_of_as_many(5, 16, 0.02) == pytest.approx(
        sum(math.comb(16, k) * 0.02**k * 0.98 ** (16 - k) for k in range(5, 17))
    )
    assert chance_of_as_many(0, 16, 0.02) == 1.0


GIB = 1 << 30


@pytest.mark.parametrize(
    ("free", "checkpoint", "fall", "told"),
    [
        (100 * GIB, 0, 0, None),
        (400 << 20, 0, 0, "400 MiB left: what cannot be written"),
        (30 * GIB, 16 * GIB, 0, "the newest checkpoint takes 16.0 GiB"),
        (40 * GIB, 0, 4 * GIB, "full in 10.0 hours"),
        (40 * GIB, 0, GIB, None),  # in 40 hours
        (400 * GIB, 0, 100 * GIB, None),  # much is left
    ],
)
def test_a_filling_disk(free: int, checkpoint: int, fall: int, told: str | None) -> None:
    history = {step: float(free + fall * (10 - step)) for step in range(1, 11)}
    found = disk(DiskAlert(), free=free, total=1000 * GIB, checkpoint=checkpoint, history=history, step_seconds=3600.0)
    assert (found is None) if told is None else (found is not None and told in found.message)


def test_a_run_that_has_fallen_silent(tmp_path: Path) -> None:
    path = make_steps(tmp_path / "s", 3)
    with Store(path) as store:
        store.event("finished", 3, "train", t=10_000.0)
        store.event("alert", 3, "train", t=15_000.0, name="x", message="an alert is no sign of life")
        store.started(4, "train", "hangs", "task", 1, t=10_000.0)
    db = sqlite3.connect(path)
    setting = SilenceAlert()
    assert silence(db, setting, now=10_800.0) is None
    found = silence(db, setting, now=11_000.0)
    assert found is not None
    assert "nothing has happened for 17 min: the last was 'finished' in step 3" in found.message
    assert silence(db, setting, now=11_000.0, since=10_500.0) is not None, "the trial that hangs"
    db.execute("INSERT INTO meta VALUES ('opened', '10500.0')")
    found = silence(db, setting, now=11_000.0)
    assert found is not None
    assert "trial hangs" in found.message, "no silence: the run went on after a pause"
    db.execute("DELETE FROM meta WHERE key = 'opened'")
    db.execute("INSERT INTO events (t, kind, step) VALUES (10990.0, 'finished', 3)")
    found = silence(db, setting, now=11_000.0)
    assert found is not None
    assert "trial hangs has been running for 17 min, and the longest so far took 4 s" in found.message
    db.execute("INSERT INTO metrics VALUES ('seconds', 'train', 4, 1000.0)")
    db.execute("UPDATE trials SET state = 'finished' WHERE trial = 'hangs'")
    assert silence(db, setting, now=13_000.0) is None, "steps are long"
    assert silence(db, setting, now=14_000.0) is not None

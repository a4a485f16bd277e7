"""Where an alert is told: once, in the events and the store, on the console, in status; and again after a resume."""

from __future__ import annotations

import io
import json
import re
import sqlite3
import sys
from pathlib import Path
from typing import Any

import pytest
from alert_store import METRICS, counts, make_steps, ungraded_rows
from rich.console import Console

from lego_verl import alerts as command
from lego_verl.monitor import clock_watch, queries
from lego_verl.monitor.alerts import AlertBook, Finding, Severity, alert_events, open_alerts
from lego_verl.monitor.clock_watch import ClockWatch, by_clock
from lego_verl.monitor.display import Display
from lego_verl.monitor.run_folder import RunFolder, append_line, read_lines
from lego_verl.monitor.store import Store
from lego_verl.monitor.store_index import index_run
from lego_verl.monitor.view import RunView
from lego_verl.status.__main__ import main as status
from lego_verl.trial.outcome import Outcome
from lego_verl.workers.run_ledger import RunLedger

sys.path.insert(0, str(Path(__file__).parents[1]))
from monitor_run import record

SHOWN = dict.fromkeys(
    ("solve_rate", "reward", "pearson", "proof_provenance", "proof_context", "submitted", "dropped", "loss_tokens")
)
SHOWN |= {"outcomes": {}}
SEEN = Finding("the dog barked 7 times", "the garden", "time", Severity.CRITICAL)


def test_an_alert_opens_once_and_is_over_when_it_stays_away() -> None:
    book = AlertBook("a run/with a slash")
    opened = book.take(4, {"dog": SEEN}, ["dog", "cat"])
    assert opened == [
        {
            "name": "dog",
            "severity": "critical",
            "message": "the dog barked 7 times. Look first at the garden.",
            "look": "#/run/a%20run%2Fwith%20a%20slash/time",
            "state": "open",
        }
    ]
    assert book.take(5, {"dog": SEEN}, ["dog"]) == []
    assert book.take(6, {}, ["dog"]) == book.take(7, {}, ["dog"]) == []
    assert book.take(8, {"dog": SEEN}, ["dog"]) == [], "it came and went: one alert"
    assert [book.take(step, {}, ["cat"]) for step in range(9, 13)] == [[]] * 4, "nobody looked"
    assert [book.take(step, {}, ["dog"]) for step in (13, 14)] == [[], []]
    (over,) = book.take(15, {}, ["dog"])
    assert (over["state"], over["message"]) == ("closed", "dog: over; it began in step 4")
    assert book.take(16, {"dog": SEEN}, ["dog"]) != []


def play(ledger: RunLedger, run: RunFolder, steps: range, *, fails: int) -> list[list[str]]:
    """Steps of 8 trials; from ``fails`` on every third has no verdict. What each step's news were."""
    news = []
    for step in steps:
        for number in range(8):
            name, lost = f"{step}-{number}", step >= fails and number % 3 == 0
            outcome = Outcome.GRADER_FAILED if lost else Outcome.SOLVED if number % 2 else Outcome.UNSOLVED
            ledger.started(step, "train", name, f"task{number // 4}", 1)
            made = record(name, outcome, task=f"task{number // 4}", group=f"{step}-{number // 4}", error="no verdict")
            ledger.finished(step, "train", made, counts())
        account = ledger.close(step, "train", min_group=2)
        assert account["monitoring"]["ledger"] > 0
        append_line(run.metrics, {"step": step, **SHOWN, **METRICS})
        found = ledger.measured(step, {"actor/entropy": 0.4}, rows=5)
        assert len(found["trials"]) == 5
        assert found["trials"][0][10].startswith(f"#/run/{run.name}/trial/{step}/")
        news.append([f"{each['name']} {each['state']}" for each in found["news"]])
    return news


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path / "told")
    folder.create()
    folder.recipe.write_text("lego:\n  monitor:\n    alerts:\n      dropped: {enabled: false}\n")
    return folder


def test_the_ledger_tells_it_when_the_step_closes(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    ledger = RunLedger(str(run.events), store=str(run.store))
    view, out = RunView(run), io.StringIO()
    display = Display(view, Console(file=out, width=300), total_steps=5, trials=8, style="lines")
    with display:
        assert play(ledger, run, range(1, 5), fails=3) == [[], [], [], ["infrastructure open"]]
        display.refresh()
        display.refresh()
        assert out.getvalue().count("! step 4: of the 16 attempts of the last 2 steps 6 ended by a fault") == 1
        assert view.now.step == 4
        assert "infrastructure" in view.alerts
    told = [line for line in read_lines(run.events) if line["event"] == "alert"]
    with queries.read_store(run.store) as db:
        stored = open_alerts(db)
        assert queries.overview(db)["alerts"][0]["data"]["message"] == told[0]["message"]
        assert queries.latest(db, ["alerts/infrastructure", "alerts/tool_use"]) == {
            "alerts/infrastructure": {"value": 1.0, "step": 4},
            "alerts/tool_use": {"value": 0.0, "step": 4},
        }
    assert [each["name"] for each in stored] == [each["name"] for each in told] == ["infrastructure"]
    assert status([str(run.path)]) == 0
    assert "! step 4: of the 16 attempts" in capsys.readouterr().out
    # Made anew from the run's files, the store has the alert still, and once.
    run.store.unlink()
    run.store.with_name("store.sqlite-wal").unlink(missing_ok=True)
    index_run(run)
    index_run(run)
    with queries.read_store(run.store) as db:
        assert [each["message"] for each in alert_events(db)] == [told[0]["message"]]


def test_a_console_that_is_redrawn_shows_what_is_open(run: RunFolder) -> None:
    play(RunLedger(str(run.events), store=str(run.store)), run, range(1, 5), fails=3)
    out = io.StringIO()
    console = Console(file=out, width=300, height=50, force_terminal=True)
    with Display(RunView(run), console, total_steps=5, trials=8, style="live") as display:
        display.refresh()
    assert "! step 4: of the 16 attempts" in re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", out.getvalue())


def test_a_run_that_goes_on_does_not_tell_it_again(run: RunFolder) -> None:
    play(RunLedger(str(run.events), store=str(run.store)), run, range(1, 5), fails=3)
    run.checkpoints.mkdir()
    (run.checkpoints / "latest_checkpointed_iteration.txt").write_text("4")
    again = RunLedger(str(run.events), store=str(run.store))
    assert play(again, run, range(5, 9), fails=99) == [[], [], ["infrastructure closed"], []]
    with queries.read_store(run.store) as db:
        assert [each["state"] for each in alert_events(db)] == ["open", "closed"]
        assert open_alerts(db) == []


def test_what_a_guard_says_is_an_alert_too(run: RunFolder) -> None:
    ledger = RunLedger(str(run.events), store=str(run.store))
    play(ledger, run, range(1, 2), fails=99)
    ledger.stopped(2, "canary", "the weights did not arrive")
    with queries.read_store(run.store) as db:
        (alert,) = open_alerts(db)
    assert (alert["name"], alert["severity"], alert["step"]) == ("canary", "critical", 2)
    assert alert["look"] == "#/run/told/alignment"
    ledger.told(2, "checkpoint", "cannot be written", "the disk")
    ledger.over(3, "checkpoint")
    ledger.told(3, "stopped", "the run stopped: lost", "the last steps")
    with queries.read_store(run.store) as db:
        assert [each["name"] for each in open_alerts(db)] == ["canary", "stopped"]


def test_what_the_trials_of_the_last_step_show_is_told_before_the_end(run: RunFolder) -> None:
    ledger = RunLedger(str(run.events), store=str(run.store))
    play(ledger, run, range(1, 4), fails=3)
    for number in range(8):
        outcome = Outcome.GRADER_FAILED if number < 3 else Outcome.SOLVED
        ledger.started(4, "train", f"4-{number}", "task0", 1)
        ledger.finished(4, "train", record(f"4-{number}", outcome, task="task0", group="4-0"), counts())
    ledger.close(4, "train", min_group=2)
    ledger.stopped(4, "stopped", "FidelityError")
    with queries.read_store(run.store) as db:
        assert [each["name"] for each in open_alerts(db)] == ["infrastructure", "stopped"]


def test_what_stopped_a_run_is_over_when_it_goes_on(run: RunFolder) -> None:
    ledger = RunLedger(str(run.events), store=str(run.store))
    play(ledger, run, range(1, 2), fails=99)
    ledger.told(1, "stopped", "the run stopped: lost", "the last steps")
    run.checkpoints.mkdir()
    (run.checkpoints / "latest_checkpointed_iteration.txt").write_text("1")
    play(RunLedger(str(run.events), store=str(run.store)), run, range(2, 3), fails=99)
    with queries.read_store(run.store) as db:
        assert [each["state"] for each in alert_events(db)] == ["open", "closed"]


def test_without_a_store_nothing_is_watched(tmp_path: Path) -> None:
    ledger = RunLedger(str(tmp_path / "events.jsonl"))
    assert ledger.measured(1, {"a": 1.0}, rows=5) == {"news": [], "open": {}, "trials": []}
    ledger.told(1, "checkpoint", "cannot be written", "the disk")
    assert [line["name"] for line in read_lines(tmp_path / "events.jsonl")] == ["checkpoint"]


def test_the_command_that_a_person_started_watches_the_clock(run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000_000.0]
    play(RunLedger(str(run.events), store=str(run.store)), run, range(1, 3), fails=99)
    with sqlite3.connect(run.store) as db:
        db.execute("UPDATE events SET t = ?", (now[0],))
        db.execute("UPDATE meta SET value = ? WHERE key = 'opened'", (now[0],))
    looks: list[float] = []

    def counted(*about: Any, now: float, **how: Any) -> Any:
        looks.append(now)
        return by_clock(*about, now=now, **how)

    monkeypatch.setattr(clock_watch, "by_clock", counted)
    watch = ClockWatch(run, every=10.0, clock=lambda: now[0])
    assert watch.look(3) == []
    now[0] += 2000
    assert [each["name"] for each in watch.look(3)] == ["silence"]
    assert watch.look(3) == []
    assert len(looks) == 2, "not looked at every time"
    now[0] += 11
    assert watch.look(3) == []
    assert len(looks) == 3
    watch.close()
    assert [line["name"] for line in read_lines(run.events) if line["event"] == "alert"] == ["silence"]
    again = ClockWatch(run, every=10.0, clock=lambda: now[0])
    assert [again.look(3), again.look(3)] == [[], []], "it goes on after a pause: that is no silence"
    again.close()
    with queries.read_store(run.store) as db:
        assert [each["name"] for each in open_alerts(db)] == ["silence"]


def test_a_finished_run_is_looked_at_again(run: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    make_steps(run.store, 8, trial=ungraded_rows)
    assert command.main([str(run.path)]) == 1
    assert "step 3: infrastructure of the" in capsys.readouterr().out
    assert command.main([str(run.path), "--json"]) == 1
    assert json.loads(capsys.readouterr().out.splitlines()[0])["name"] == "infrastructure"
    assert command.main([str(run.path / "nowhere")]) == 2
    healthy = RunFolder(run.path.with_name("healthy"))
    healthy.create()
    make_steps(healthy.store, 8)
    assert command.main([str(healthy.path)]) == 0
    assert "healthy: 8 steps, 0 alerts" in capsys.readouterr().out


def test_a_run_of_an_older_alert_without_a_name_is_shown(run: RunFolder) -> None:
    with Store(run.store) as store:
        store.event("alert", 1, "train", message="as docs/11 said at first")
    with queries.read_store(run.store) as db:
        assert [each["message"] for each in open_alerts(db)] == ["as docs/11 said at first"]

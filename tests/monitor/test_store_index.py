"""A store that is made from a run's files, and the queries over it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from monitor_run import make_run, record, rows

from lego_verl.monitor import queries
from lego_verl.monitor.run_folder import append_line
from lego_verl.monitor.store import Store
from lego_verl.monitor.store_index import catch_up, index_run, needs_index
from lego_verl.monitor.store_sums import forget_sums
from lego_verl.trial.outcome import Outcome


def asked(path: Path) -> dict[str, Any]:
    """What every view shows, as JSON would have it."""
    with queries.read_store(path) as db:
        views = {
            "overview": queries.overview(db, total_steps=9, now=10.0),
            "learning": [queries.learning(db), queries.learning(db, by_harness=True)],
            "curves": queries.curves(db, ("pearson", "outcomes/")),
            "names": queries.metric_names(db),
            "outcomes": [queries.outcomes(db), queries.where_they_end(db)],
            "trials": queries.trials(db, limit=1000),
            "tasks": queries.tasks(db),
            "behaviour": queries.behaviour(db, tasks=queries.cohort(db)),
            "trends": queries.trends(db),
            "alignment": queries.alignment(db),
            "times": queries.times(db),
            "side": queries.side(db, first_step=1),
            "task": queries.trials_of_task(db, "task0"),
            "trial": queries.trial(db, "task0-1-0"),
        }
    return json.loads(json.dumps(views))


def test_an_older_run_is_indexed_and_once_is_enough(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    assert needs_index(run)
    done = index_run(run)
    assert (done.trials, done.metrics, done.unreadable) == (12, 3, 0)
    assert not needs_index(run)
    before = asked(run.store)
    assert index_run(run).trials == 0
    assert asked(run.store) == before


def test_the_views_show_the_run(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    index_run(run)
    shown = asked(run.store)
    assert shown["overview"]["step"] == 3
    assert shown["overview"]["seconds_left"] == 60.0
    assert shown["overview"]["solve_rate"]["solved"] == 6
    assert [row["trials"] for row in shown["learning"][0]] == [4, 4, 4]
    ended = {
        (row["outcome"], row["trained"], row["why_not"]): row["trials"]
        for row in shown["outcomes"][0]
        if row["step"] == 2
    }
    # The second task's group lost a trial, and a group of one is not trained.
    assert ended == {
        ("solved", 1, ""): 1,
        ("unsolved", 1, ""): 1,
        ("solved", 0, "small_group"): 1,
        ("sandbox_failed", 0, "sandbox_failed"): 1,
    }
    assert {row["task"]: row["went"] for row in shown["tasks"]} == {"task0": "mixed", "task1": "always"}
    assert shown["behaviour"][0]["read_before_edit"] == 1.0
    assert shown["behaviour"][0]["checked_after_edit"] == 1.0
    assert shown["behaviour"][0]["patch_lines"] == 3.0
    trial = shown["trial"]
    assert [call["acts"] for call in trial["calls"]] == ["read", "edit", "test", ""]
    assert trial["calls"][1]["brief"] == "sed -i s/x/y/ a.py"
    assert trial["behaviour"]["last_act"] == "text"
    assert len(trial["group"]) == 2
    assert sum(segment["loss_tokens"] for segment in trial["segments"]) == trial["trial"]["loss_tokens"] > 0


def test_sums_and_what_is_not_summed_yet_say_the_same(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", steps=6, tasks=3)
    index_run(run)
    summed = asked(run.store)
    with Store(run.store) as store, store.transaction() as db:
        for step in (1, 4, 6):
            forget_sums(db, step, "train")
    live = asked(run.store)
    for name, view in summed.items():
        assert _sorted(live[name]) == _sorted(view), name
    with Store(run.store) as store:
        store.make_all_sums()
        assert store.connection.execute("SELECT count(*) FROM open_steps").fetchone() == (0,)
    assert asked(run.store) == summed


def _sorted(value: Any) -> Any:
    """Without what is left open: the order of rows, and of additions."""
    if isinstance(value, float):
        return round(value, 9)
    if isinstance(value, list):
        return sorted((_sorted(each) for each in value), key=json.dumps)
    return {key: _sorted(value[key]) for key in sorted(value)} if isinstance(value, dict) else value


def test_what_the_store_lost_is_added(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    index_run(run)
    whole = asked(run.store)
    with Store(run.store) as store, store.transaction() as db:
        db.execute("DELETE FROM trials WHERE trial LIKE 'task0-%'")
    assert needs_index(run)
    assert index_run(run).trials == 6
    again = asked(run.store)
    # Rows got other numbers; all else is as it was.
    assert again["overview"] == whole["overview"]
    assert again["side"] == whole["side"]


def test_a_trial_whose_files_are_gone_or_broken_still_counts(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", steps=1)
    (run.trial(1, "task0-1-0") / "trial.json").unlink()
    (run.trial(1, "task0-1-1") / "tokens.npz").write_bytes(b"PK cut")
    (run.trial(1, "task1-1-0") / "calls.jsonl").write_text("[]\n")
    run.events.write_text(run.events.read_text() + '{"t":3.0,"event":"fini')
    done = index_run(run)
    assert (done.trials, done.unreadable) == (4, 2)
    with queries.read_store(run.store) as db:
        assert queries.learning(db)[0]["solve_rate"]["solved"] == 2


def test_new_lines_of_metrics_are_read_once(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", steps=1)
    index_run(run)
    append_line(run.metrics, {"step": 2, "solve_rate": 0.75})
    with run.metrics.open("a") as file:
        file.write('{"step": 3, "solve')
    append_line(run.heldout, {"step": 1, "solve_rate": 0.25})
    with Store(run.store) as store:
        assert catch_up(run, store) == 2
        assert catch_up(run, store) == 0
    with queries.read_store(run.store) as db:
        assert queries.curves(db, ("solve_rate",))["solve_rate"] == [(1, 0.5), (2, 0.75)]
        assert queries.curves(db, ("solve_rate",), "heldout")["solve_rate"] == [(1, 0.25)]


def test_trials_are_found_by_what_they_are(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    index_run(run)
    with queries.read_store(run.store) as db:
        assert len(queries.trials(db, outcome="sandbox_failed")) == 3
        assert [row["step"] for row in queries.trials(db, why_not="small_group", last_step=2)] == [2, 1]
        assert len(queries.trials(db, limit=5, offset=10)) == 2
        with pytest.raises(KeyError):
            queries.trials(db, colour="red")


def test_tasks_are_told_apart_by_how_they_went(tmp_path: Path) -> None:
    went = {"never": [0] * 8, "always": [1] * 8, "improved": [0] * 8 + [1] * 8, "regressed": [1] * 8 + [0] * 8}
    went["mixed"] = [0, 1] * 8
    with Store(tmp_path / "s") as store:
        for task, solved in went.items():
            for number, each in enumerate(solved):
                outcome = Outcome.SOLVED if each else Outcome.UNSOLVED
                store.finished(number, "train", record(f"{task}-{number}", outcome, task=task), rows())
        store.finished(1, "train", record("x", Outcome.SANDBOX_LOST, task="ungraded"))
    with queries.read_store(tmp_path / "s") as db:
        assert {row["task"]: row["went"] for row in queries.tasks(db)} == {name: name for name in (*went, "ungraded")}


def test_recipes_differ_by_full_names(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("lego:\n  seed: 1\n  harness: {name: mini}\n")
    (tmp_path / "b.yaml").write_text("lego:\n  seed: 2\n  harness: {name: mini}\n  more: x\n")
    ours, theirs = queries.recipe(tmp_path / "a.yaml"), queries.recipe(tmp_path / "b.yaml")
    assert queries.recipe_differences(ours, theirs) == {"lego.more": (None, "x"), "lego.seed": (1, 2)}
    assert queries.recipe(tmp_path / "none.yaml") == {}


def test_a_reader_changes_nothing(tmp_path: Path) -> None:
    with Store(tmp_path / "s") as store:
        store.event("x")
    with queries.read_store(tmp_path / "s") as db, pytest.raises(Exception, match="readonly"):
        db.execute("DELETE FROM events")

"""The dashboard's API: what each endpoint says of a small run, and what it refuses."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from dashboard_run import ALERT, RUNNING, STEPS

from lego_verl.dashboard.api.common import Refused, trial_folder
from lego_verl.dashboard.outcome_texts import outcome_texts, read_docs
from lego_verl.dashboard.runs import Runs
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.proof.read import NoRun
from lego_verl.trial.outcome import Outcome

BASE = "/api/runs/demo%20run"


def get(client: Any, path: str, status: int = 200) -> Any:
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    return answer.json()


def test_runs_and_one_run(client: Any, run: RunFolder) -> None:
    (listed,) = get(client, "/api/runs")["runs"]
    assert listed["name"] == "demo run"
    assert (listed["step"], listed["total_steps"], listed["alive"]) == (STEPS, 9, False)
    one = get(client, BASE)
    assert one["path"] == str(run.path)
    assert one["splits"] == ["train", "heldout"]
    assert one["harnesses"] == ["mini_swe_agent", "openhands"]
    assert (one["first_step"], one["last_step"]) == (0, STEPS + 1)
    assert one["store"]["state"] == "ready"


def test_overview(client: Any) -> None:
    view = get(client, f"{BASE}/overview")
    assert view["step"] == STEPS
    assert view["total_steps"] == 9
    assert view["solve_rate"]["low"] < view["solve_rate"]["value"] < view["solve_rate"]["high"]
    assert view["heldout"]["step"] == STEPS
    assert [alert["message"] for alert in view["open_alerts"]] == [ALERT]
    assert [(part["step"], part["trials"]) for part in view["running"]] == [(STEPS + 1, 1)]
    assert view["alive"] is False
    changed = get(client, f"{BASE}/changes")
    assert changed["looked_at"] > 10


def test_events_are_followed_by_their_number(client: Any) -> None:
    newest = get(client, f"{BASE}/events?limit=3")["events"]
    assert len(newest) == 3
    after = get(client, f"{BASE}/events?after={newest[1]['id']}")["events"]
    assert [event["id"] for event in after] == [newest[0]["id"]]
    assert {event["kind"] for event in get(client, f"{BASE}/events?kind=alert")["events"]} == {"alert"}


def test_learning_is_smoothed_by_pooling(client: Any) -> None:
    rows = get(client, f"{BASE}/learning?window=2")["train"]
    pooled = rows[2]["smoothed"]
    assert pooled["graded"] == rows[1]["solve_rate"]["graded"] + rows[2]["solve_rate"]["graded"]
    assert pooled["solved"] == rows[1]["solve_rate"]["solved"] + rows[2]["solve_rate"]["solved"]
    assert pooled["high"] - pooled["low"] < rows[2]["solve_rate"]["high"] - rows[2]["solve_rate"]["low"]
    by_harness = get(client, f"{BASE}/learning?by_harness=1")["train"]
    assert {row["harness"] for row in by_harness if row["step"] == STEPS} == {"mini_swe_agent", "openhands"}
    assert [row["step"] for row in get(client, f"{BASE}/learning")["heldout"]] == [0, STEPS]


def test_metrics_by_name(client: Any) -> None:
    assert {"entropy", "pearson", "outcomes/solved"} <= set(get(client, f"{BASE}/metrics/names")["names"])
    curves = get(client, f"{BASE}/metrics?name=entropy&name=outcomes/")["curves"]
    assert curves["entropy"] == [[step, 2.0 + step] for step in range(1, STEPS + 1)]
    assert "outcomes/solved" in curves


def test_the_ledger_adds_up(client: Any) -> None:
    told = get(client, f"{BASE}/outcomes")
    ledger = told["ledger"]
    assert ledger["submitted"] == sum(row["trials"] for row in told["rows"])
    assert ledger["submitted"] == ledger["trained"] + ledger["dropped"] + ledger["pending"]
    assert ledger["pending"] == 2  # the one that runs, and one of a step that is closed again by nobody
    assert ledger["dropped"] == STEPS
    heldout = get(client, f"{BASE}/outcomes?split=heldout")["ledger"]
    assert heldout == {"submitted": 4, "trained": 0, "dropped": 0, "pending": 4}


def test_trials_behind_a_number_page_by_page(client: Any) -> None:
    failed = get(client, f"{BASE}/trials?outcome=sandbox_failed&split=train")
    assert len(failed["trials"]) == STEPS
    assert {row["why_not"] for row in failed["trials"]} == {"sandbox_failed"}
    first = get(client, f"{BASE}/trials?limit=10")
    rest = get(client, f"{BASE}/trials?limit=10&offset=10")
    assert first["more"] is True
    names = [(row["step"], row["split"], row["trial"]) for row in [*first["trials"], *rest["trials"]]]
    assert len(set(names)) == 20
    assert [row["trial"] for row in get(client, f"{BASE}/trials?state=running")["trials"]] == [RUNNING]
    slowest = [row["total_seconds"] for row in get(client, f"{BASE}/trials?slowest=1&limit=5")["trials"]]
    assert slowest == sorted(slowest, reverse=True)


def test_tasks_and_time(client: Any) -> None:
    view = get(client, f"{BASE}/tasks")
    assert {task["task"] for task in view["tasks"]} == {"task0", "task1", "task2"}
    assert all(len(cell) == 4 for task in view["tasks"] for cell in task["cells"])
    assert {row["step"] for row in view["steps"]} == set(range(1, STEPS + 2))
    only = get(client, f"{BASE}/tasks?harness=openhands")
    assert [(task["task"], task["graded"]) for task in only["tasks"]] == [("task0", 1)]
    time = get(client, f"{BASE}/time")
    assert [row["trial"] for row in time["running"]] == [RUNNING]
    assert "seconds_by_phase/step/gen" in time["steps"]
    assert len(time["slowest"]) == 20


def test_outcomes_say_what_the_docs_say(client: Any) -> None:
    told = {each["outcome"]: each for each in get(client, "/api/outcomes")["outcomes"]}
    assert set(told) == {str(each) for each in Outcome}
    assert all(told[name].keys() >= {"symptom", "cause", "ruled_out", "fix"} for name in told)
    docs = Path(__file__).parents[2] / "docs" / "07-when-trials-fail.md"
    assert outcome_texts() == read_docs(docs.read_text()), (
        f"docs/07 has changed: python -m lego_verl.dashboard.outcome_texts {docs}"
    )


@pytest.mark.parametrize(
    ("path", "status", "says"),
    [
        ("/api/runs/nobody/overview", 404, "no run of the name 'nobody'"),
        (f"{BASE}/outcomes?split=test", 422, "split"),
        (f"{BASE}/trials?step=three", 422, "step"),
        (f"{BASE}/trials?limit=100000", 422, "limit"),
        (f"{BASE}/trials?outcome=exploded", 422, "there are solved, unsolved"),
        (f"{BASE}/trials?trained=2", 422, "trained"),
        (f"{BASE}/learning?window=0", 422, "window"),
        (f"{BASE}/metrics?{'&'.join(['name=a'] * 25)}", 422, "name"),
        (f"{BASE}/nothing", 404, "Not Found"),
        ("/api/runs/..%2f..%2fetc/overview", 404, ""),
        ("/api/runs/%2e%2e/overview", 404, ""),
        ("/page/..%2f__main__.py", 404, ""),
        ("/page/%2e%2e/%2e%2e/__init__.py", 404, ""),
        ("/openapi.json", 404, ""),
        ("/docs", 404, ""),
    ],
)
def test_what_is_refused_is_refused_in_json(client: Any, path: str, status: int, says: str) -> None:
    assert says in get(client, path, status)["error"]


def test_nothing_can_be_changed(client: Any) -> None:
    for method in ("post", "put", "delete", "patch"):
        assert getattr(client, method)(f"{BASE}/overview").status_code == 405


@pytest.mark.parametrize("name", ["..", ".", "", "a/b", "..\\x", "a\0b", "../../etc"])
def test_a_trials_name_is_no_path(run: RunFolder, name: str) -> None:
    with pytest.raises(Refused):
        trial_folder(run, 1, name)


def test_a_trial_that_is_a_link_to_elsewhere_is_refused(run: RunFolder, tmp_path: Path) -> None:
    link = run.trial(1, "link")
    link.symlink_to(tmp_path)
    try:
        with pytest.raises(Refused):
            trial_folder(run, 1, "link")
    finally:
        link.unlink()


def test_runs_have_names_of_their_own(tmp_path: Path) -> None:
    for place in ("a/same", "b/same", "b/other"):
        RunFolder(tmp_path / place).create()
    runs = Runs([tmp_path / "a" / "same", tmp_path / "b"])
    assert set(runs.all()) == {"same", "same-2", "other"}
    assert runs.all()["same"].path == (tmp_path / "a" / "same").resolve()
    RunFolder(tmp_path / "b" / "later").create()
    found = runs.find("later")
    assert found is not None
    assert found.path == (tmp_path / "b" / "later").resolve()
    assert {name: run.path for name, run in runs.all().items()}["same"] == (tmp_path / "a" / "same").resolve()
    assert runs.find("../a/same") is None
    with pytest.raises(NoRun):
        Runs([tmp_path / "missing"])


def test_a_run_without_a_store_is_waited_for(tmp_path: Path) -> None:
    from fastapi.testclient import TestClient

    from lego_verl.dashboard.app import create_app

    RunFolder(tmp_path / "new").create()
    client = TestClient(create_app(Runs([tmp_path / "new"])), base_url="http://localhost")
    answer = client.get("/api/runs/new/overview")
    assert answer.status_code == 202
    assert json.loads(answer.content) == {"error": "new: nothing has happened in it yet", "waiting": True}
    assert client.get("/api/runs/new").json()["last_step"] is None
    sqlite3.connect(tmp_path / "new" / "store.sqlite").execute("PRAGMA user_version = 1")  # begun, without its tables
    for asked in ("", "/overview", "/learning", "/outcomes", "/tasks", "/time", "/trials", "/events"):
        answer = client.get(f"/api/runs/new{asked}")
        assert (answer.status_code, answer.json()["waiting"]) == (202, True), asked
    (tmp_path / "new" / "store.sqlite").write_bytes(b"no store at all, but long enough to be looked at" * 40)
    assert client.get("/api/runs/new/overview").status_code == 503

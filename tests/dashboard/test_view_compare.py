"""Compare: spans of steps, harnesses, two runs; one task's trials."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from dashboard_run import STEPS
from fastapi.testclient import TestClient

from lego_verl.dashboard.app import create_app
from lego_verl.dashboard.runs import Runs
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.monitor.store import Store

BASE = "/api/runs/demo%20run/compare"


def get(client: Any, path: str = "", status: int = 200) -> Any:
    answer = client.get(BASE + path)
    assert answer.status_code == status, answer.text
    return answer.json()


def test_two_spans_of_steps_are_two_sides(client: Any) -> None:
    view = get(client, f"?first_step=1&last_step=1&other_first_step=2&other_last_step={STEPS}")
    first, second = view["sides"]
    assert (first["first_step"], first["last_step"], first["trials"]) == (1, 1, 9)
    assert (second["first_step"], second["last_step"]) == (2, STEPS)
    measures = {row["name"]: row for row in view["measures"]}
    assert measures["solve_rate"]["first"]["value"] == pytest.approx(first["solve_rate"]["value"])
    assert measures["solve_rate"]["low"] <= measures["solve_rate"]["difference"] <= measures["solve_rate"]["high"]
    assert {row["task"] for row in view["same_tasks"]["tasks"]} == {"task0", "task1", "task2"}
    assert view["recipe"] is None


def test_two_harnesses_are_two_sides(client: Any) -> None:
    first, second = get(client, "?harness=mini_swe_agent&other_harness=openhands")["sides"]
    assert second["trials"] == 1
    assert first["trials"] > 9


def test_two_runs_are_two_sides_with_their_recipes(run: RunFolder, tmp_path: Path) -> None:
    other = RunFolder(Path(shutil.copytree(run.path, tmp_path / "other")))
    other.recipe.write_text(run.recipe.read_text().replace("min_group: 2", "min_group: 3"))
    with Store(other.store) as store, store.transaction() as db:
        db.execute("DELETE FROM trials WHERE step > 2")
        for table in ("group_sums", "step_sums", "ending_sums"):
            db.execute(f"DELETE FROM {table} WHERE step > 2")
    client = TestClient(create_app(Runs([run.path, other.path])), base_url="http://127.0.0.1:8420")
    view = get(client, "?other=other")
    assert [side["last_step"] for side in view["sides"]] == [STEPS + 1, 2]
    assert view["recipe"] == [["lego.trial.min_group", 2, 3, False]]
    told = get(client, "/task?task=task0&other=other")
    assert len(told["first"]) > len(told["second"]) > 0
    assert "there is no run" in get(client, "?other=none", status=404)["error"]


def test_a_tasks_trials_stand_side_by_side(client: Any) -> None:
    assert get(client, "/tasks")["tasks"] == ["held-h0", "held-h1", "task0", "task1", "task2"]
    rows = get(client, "/task?task=task1")["first"]
    assert {row["task"] for row in rows} == {"task1"}
    assert rows[0]["step"] >= rows[-1]["step"]
    assert get(client, "/task?task=none")["first"] == []

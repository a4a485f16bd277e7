"""Recipe: what ran, in which versions, and what differs."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path
from typing import Any

from fastapi.testclient import TestClient

from lego_verl.dashboard.api.recipe import default_recipe, told_apart
from lego_verl.dashboard.app import create_app
from lego_verl.dashboard.runs import Runs
from lego_verl.monitor.run_folder import RunFolder


def asking(*runs: RunFolder) -> Any:
    return TestClient(create_app(Runs([run.path for run in runs])), base_url="http://127.0.0.1:8420")


def test_keys_versions_and_digests(run: RunFolder, tmp_path: Path) -> None:
    mine = RunFolder(Path(shutil.copytree(run.path, tmp_path / "mine")))
    mine.versions.write_text(json.dumps({"python": "3.11"}))
    view = asking(mine).get("/api/runs/mine/recipe").json()
    assert view["recipe"] == {"lego.trial.min_group": 2, "trainer.total_training_steps": 9}
    assert view["versions"] == {"python": "3.11"}
    digest = hashlib.sha256(mine.recipe.read_bytes()).hexdigest()
    assert view["digests"][0] == {"what": "recipe.yaml (sha256)", "value": digest, "trials": None}
    mine.recipe.unlink()
    assert asking(mine).get("/api/runs/mine/recipe").status_code == 404


def test_what_every_run_differs_in_is_told_apart() -> None:
    ours = {
        "lego.run.name": "a",
        "lego.run.folder": "/runs",
        "data": "/runs/a/x",
        "trace": "a",
        "n": 4,
        "rest": "/runs/ab",
    }
    theirs = {"lego.run.name": "b", "lego.run.folder": "/runs", "data": "/runs/b/x", "trace": "b", "n": 6, "m": 1}
    told = {key: every for key, _, _, every in told_apart(ours, theirs)}
    assert told == {"lego.run.name": True, "data": True, "trace": True, "n": False, "rest": False, "m": False}


def test_differences_to_the_defaults(run: RunFolder, tmp_path: Path) -> None:
    default = default_recipe()
    assert default["lego.harness.turn_limit"] > 0
    assert default["lego.capture.reasoning"] == "keep", "as a file has it"
    mine = RunFolder(Path(shutil.copytree(run.path, tmp_path / "mine")))
    told = asking(mine).get("/api/runs/mine/recipe/differences").json()
    rows = {key: (here, there) for key, here, there, _ in told["differences"]}
    assert rows["trainer.total_training_steps"] == (9, default["trainer.total_training_steps"])
    assert rows["lego.harness.turn_limit"] == (None, default["lego.harness.turn_limit"])


def test_differences_to_another_run(run: RunFolder, tmp_path: Path) -> None:
    other = RunFolder(Path(shutil.copytree(run.path, tmp_path / "other")))
    other.recipe.write_text("trainer: {total_training_steps: 10}\n")
    told = asking(run, other).get("/api/runs/demo%20run/recipe/differences?to=other").json()
    assert told["differences"] == [
        ["lego.trial.min_group", 2, None, False],
        ["trainer.total_training_steps", 9, 10, False],
    ]

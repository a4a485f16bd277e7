"""Alignment: what is compared, the bounds, and how old weights were."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from monitor_run import make_run, record

from lego_verl.dashboard.app import create_app
from lego_verl.dashboard.runs import Runs
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.monitor.store import Store
from lego_verl.monitor.store_index import index_run
from lego_verl.trial.outcome import Outcome

RECIPE = """
lego:
  run: {name: aligned, folder: x}
  guard: {min_pearson: 0.9, min_effective_share: 0.1, canary: true, canary_tolerance: null}
  trial: {version_span: 3}
actor_rollout_ref: {rollout: {dtype: DTYPE}}
algorithm: {rollout_correction: {rollout_is: token, bypass_mode: false}}
trainer: {v1: {trainer_mode: harness_colocate_async, sampler: {max_off_policy_threshold: 4}}}
"""


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    made = make_run(tmp_path / "aligned", steps=1)
    made.recipe.write_text(RECIPE.replace("DTYPE", "bfloat16"))
    index_run(made)
    nested = {"alignment": {"overall": {"k3": 0.25}, "by_lag": {"1": {"k3": 0.5}}}, "canary_difference": 1e-6}
    with Store(made.store) as store:
        store.metrics(1, {**nested, "rollout_corr/kl": 2.0, "unlike": 1.0})
        store.metrics(2, {"alignment": {"overall": {"k3": 0.5}}})
        for step, lag in ((1, 2), (2, None)):
            versions = {"weights_first": step, "weights_last": step}
            old = record(f"old-{step}", Outcome.SOLVED, group=f"g{step}", versions=versions)
            store.finished(step, "train", old, None)
            if lag is not None:
                store.closed(step + 1 + lag, "train", [f"old-{step}"], {})
    return made


def ask(run: RunFolder) -> Any:
    answer = TestClient(create_app(Runs([run.path])), base_url="http://127.0.0.1:8420").get(
        "/api/runs/aligned/alignment"
    )
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_metrics_of_alignment_alone_are_there_by_step(run: RunFolder) -> None:
    metrics = ask(run)["metrics"]
    assert metrics["alignment/overall/k3"] == [[1, 0.25], [2, 0.5]]
    assert metrics["alignment/by_lag/1/k3"] == [[1, 0.5]]
    assert metrics["rollout_corr/kl"] == [[1, 2.0]]
    assert metrics["canary_difference"] == [[1, 1e-6]]
    assert "unlike" not in metrics


def test_the_recipe_says_the_bounds(run: RunFolder) -> None:
    view = ask(run)
    assert (view["guards"]["min_pearson"], view["guards"]["canary_tolerance"]) == (0.9, 0.2)
    assert view["correction"] == {"rollout_is": "token", "bypass_mode": False}
    assert (view["overlapping"], view["version_span"], view["off_policy_steps"]) == (True, 3, 4)
    run.recipe.write_text(RECIPE.replace("DTYPE", "float32"))
    assert ask(run)["guards"]["canary_tolerance"] == 1e-4


def test_a_trial_that_no_step_has_taken_has_no_lag(run: RunFolder) -> None:
    assert [(row["step"], row["lag"]) for row in ask(run)["staleness"]] == [(1, 2.0)]

"""The main job, for real: the default recipe trains, learns, and its numbers are right. Minutes."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from loop_helpers import MAIN, left_behind, steps_of
from watching import VIEWS, Watched

from lego_verl.monitor import queries
from lego_verl.monitor.run_folder import RunFolder

pytestmark = [pytest.mark.loop, pytest.mark.timeout(1500)]


def test_it_learns(default_run: Path) -> None:
    """One run, with its chance: what every seed must reach is shown by ``benchmarks/learning.py``."""
    steps = steps_of(default_run)
    first = sum(step["solve_rate"] for step in steps[:2]) / 2
    last = sum(step["solve_rate"] for step in steps[-3:]) / 3
    assert first < 0.6
    assert last >= first + 0.2


def test_held_out_tasks_are_run_before_within_and_after(default_run: Path) -> None:
    """Whether they rise is for ``benchmarks/learning.py``: one run has too few of these trials to say so each time."""
    evaluations = [json.loads(line) for line in (default_run / "heldout.jsonl").read_text().splitlines()]
    assert [evaluation["step"] for evaluation in evaluations] == [0, 8, 16]
    assert all(sum(evaluation["outcomes"].values()) == 24 for evaluation in evaluations)


def test_its_numbers_are_right_at_every_step(default_run: Path) -> None:
    for step in steps_of(default_run):
        assert step["pearson"] >= 0.999
        assert (step["proof_provenance"], step["proof_context"]) == (1.0, 1.0)
        assert step["submitted"] == step["trained"] + step["dropped"]
        assert step["loss_tokens"] == step["sampled_tokens"] > 0
        assert step["canary_difference"] < 1e-4
        assert step["canary_change"] > 0 or step["zero_variance_groups"] == step["groups"]
        assert step["alignment"]["overall"]["tokens"] == step["loss_tokens"]
        assert step["alignment"]["by_lag"].keys() == {"0"}


def test_it_could_be_watched(watched_run: Watched) -> None:
    if not watched_run.standing and not os.environ.get("CI"):
        pytest.skip("no browser to watch it with: Chromium is not installed, and cannot be here")
    assert watched_run.complaints == []
    assert watched_run.views == set(VIEWS)
    steps = {int(found[1]) for said in watched_run.standing if (found := re.match(r"running step (\d+) of 16", said))}
    assert len(steps) > 12
    assert watched_run.standing[-1] == "finished step 16 of 16"


def test_it_raised_no_alert(default_run: Path) -> None:
    with queries.read_store(RunFolder(default_run).store) as db:
        raised = {event["data"]["name"] for event in queries.events(db, kinds=["alert"])}
    assert raised <= {"signal"}  # a run that solves nearly all its tasks is told that they teach nothing any more


def test_everything_of_it_is_in_its_folder(default_run: Path) -> None:
    for name in ("recipe.yaml", "versions.json", "metrics.jsonl", "events.jsonl", "logs/training.log", "policy"):
        assert (default_run / name).exists(), name
    assert (default_run / "checkpoints" / "latest_checkpointed_iteration.txt").exists()
    trials = list((default_run / "trials" / "0001").iterdir())
    assert len(trials) == steps_of(default_run)[0]["submitted"]
    assert {path.name for path in trials[0].iterdir()} >= {"trial.json", "patch.diff", "harness.log", "tokens.npz"}


@pytest.mark.parametrize(
    ("how", "policy"), [(signal.SIGINT, "tiny"), (signal.SIGKILL, "tiny_moe")], ids=["interrupted", "killed"]
)
def test_a_run_that_is_ended_after_step_2_goes_on_at_step_3(
    how: signal.Signals, policy: str, default_run: Path, tmp_path: Path
) -> None:
    arguments = [
        *MAIN,
        f"policy={policy}",
        f"run.folder={tmp_path}",
        "run.name=again",
        "trainer.total_training_steps=3",
        "trainer.val_before_train=false",
        "trainer.test_freq=-1",
        "data.train_batch_size=2",
        "actor_rollout_ref.actor.ppo_mini_batch_size=1",
    ]
    run = tmp_path / "again"
    if policy == "tiny":  # the default run's own: nothing is new in making it again
        shutil.copytree(default_run / "policy", run / "policy")
    first = subprocess.Popen(arguments, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + 600
    while len(steps_of(run)) < 2 and first.poll() is None and time.monotonic() < deadline:
        time.sleep(0.1)
    assert len(steps_of(run)) == 2
    os.kill(first.pid, how)
    try:
        code = first.wait(timeout=60)
    finally:
        first.kill()
    assert code == (130 if how is signal.SIGINT else -signal.SIGKILL)
    time.sleep(8 if how is signal.SIGKILL else 0)
    assert left_behind("again", first.pid) == []
    second = subprocess.run(arguments, capture_output=True, text=True)
    assert second.returncode == 0, second.stderr
    assert "resumed after step 2" in second.stdout
    assert [step["step"] for step in steps_of(run)] == [1, 2, 3]
    assert all(step["pearson"] >= 0.999 for step in steps_of(run))
    assert all((step["proof_provenance"], step["proof_context"]) == (1.0, 1.0) for step in steps_of(run))

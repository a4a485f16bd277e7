"""The same training with containers in the place of processes: one step, on a real daemon."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import docker
import pytest
from loop_helpers import MAIN, steps_of

pytestmark = [pytest.mark.loop, pytest.mark.timeout(900)]


def test_the_default_policy_trains_in_containers(default_run: Path, daemon: str, tmp_path: Path) -> None:
    # The policy and some tasks of the default run: what is new here is where trials run.
    tasks = tmp_path / "tasks"
    for folder in sorted((default_run / "tasks" / "train").iterdir())[:2]:
        shutil.copytree(folder, tasks / folder.name)
    shutil.copytree(default_run / "policy", tmp_path / "run" / "policy")
    done = subprocess.run(
        [
            *MAIN,
            *("sandbox=docker", f"sandbox.hosts=[{daemon}]", "tasks=harbor", f"tasks.train={tasks}"),
            *("harness.turn_limit=8", "harness.seconds=120", "sandbox.disk_mb=64", "sandbox.memory_mb=512"),
            *(f"run.folder={tmp_path}", "run.name=run", "trainer.total_training_steps=1", "trainer.test_freq=-1"),
            *("trainer.val_before_train=false", "data.train_batch_size=2", "actor_rollout_ref.rollout.n=4"),
            "actor_rollout_ref.actor.ppo_mini_batch_size=2",
        ],
        capture_output=True,
        text=True,
        env={key: value for key, value in os.environ.items() if key != "DOCKER_HOST"},
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "sandbox: docker" in done.stdout
    (step,) = steps_of(tmp_path / "run")
    assert (step["submitted"], step["trained"]) == (8, 8)
    assert step["pearson"] >= 0.999
    assert (step["proof_provenance"], step["proof_context"]) == (1.0, 1.0)
    client = docker.DockerClient(daemon)
    try:
        assert client.containers.list(all=True, filters={"label": "lego.run=run"}) == []
    finally:
        client.close()

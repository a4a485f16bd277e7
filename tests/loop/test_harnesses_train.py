"""The same training with another harness, as it ships: two steps each, on a policy that was made for its tools."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest
from loop_helpers import MAIN, left_behind, steps_of

from lego_verl.tasks.toy.make import make_toy_tasks

pytestmark = [pytest.mark.loop, pytest.mark.timeout(1500)]


@pytest.fixture(scope="module")
def tasks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tasks of each kind: what the policy is made from, and is trained on."""
    folder = tmp_path_factory.mktemp("toy")
    chosen: dict[str, list[str]] = {}
    for task in make_toy_tasks(folder).train:
        chosen.setdefault(str(task.metadata["kind"]), []).append(task.name)
    for name in (name for names in chosen.values() for name in names[:2]):
        shutil.copytree(folder / "train" / name, folder / "few" / name)
    return folder / "few"


def train(tasks: Path, folder: Path, *more: str, environment: dict[str, str] | None = None) -> list[dict]:
    command = [
        *MAIN,
        *("tasks=harbor", f"tasks.train={tasks}", f"run.folder={folder}", "run.name=run", *more),
        *("harness.turn_limit=8", "harness.seconds=300", "sandbox.memory_mb=512", "sandbox.disk_mb=64"),
        *("trainer.total_training_steps=2", "trainer.test_freq=-1", "trainer.val_before_train=false"),
        *("data.train_batch_size=2", "actor_rollout_ref.rollout.n=4", "actor_rollout_ref.actor.ppo_mini_batch_size=2"),
    ]
    started = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, env=os.environ | (environment or {})
    )
    told, _ = started.communicate()
    print(told)
    assert started.returncode == 0, told
    assert left_behind("run", started.pid) == []
    return steps_of(folder / "run")


def check(steps: list[dict], *harnesses: str) -> None:
    assert [step["step"] for step in steps] == [1, 2]
    assert {name for step in steps for name in step["harnesses"]} == set(harnesses)
    for step in steps:
        assert (step["submitted"], step["trained"]) == (8, 8)
        assert (step["proof_provenance"], step["proof_context"]) == (1.0, 1.0)
        assert step["pearson"] >= 0.999
        assert step["loss_tokens"] == step["sampled_tokens"] > 0
        assert step["calls"] > step["submitted"]
        assert step["canary_change"] > 0 or step["zero_variance_groups"] == step["groups"]


@pytest.mark.harness_live
@pytest.mark.parametrize("harness", ["mini_swe_agent", "claude_code", "codex", "opencode", "openhands"])
def test_it_trains(harness: str, tasks: Path, tmp_path: Path) -> None:
    check(train(tasks, tmp_path, f"harness={harness}"), harness)


def test_one_from_npm_and_one_of_another_package_train_in_one_run(tasks: Path, made_up: Path, tmp_path: Path) -> None:
    mix = ("harness=mix", "harness.mix={claude_code: 1, made_up: 1}")
    path = os.pathsep.join([str(made_up), os.environ.get("PYTHONPATH", "")])
    check(train(tasks, tmp_path, *mix, environment={"PYTHONPATH": path}), "claude_code", "made_up")

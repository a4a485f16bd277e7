"""Every algorithm and every correction trains for real, two steps each: pytest -m algorithms, 1.5 minutes each."""

from __future__ import annotations

import math
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from loop_helpers import MAIN, steps_of

pytestmark = [pytest.mark.algorithms, pytest.mark.timeout(900)]

ALGORITHMS = ("ppo", "gspo", "dapo", "rloo")
CORRECTIONS = ("token_tis", "sequence_tis", "token_mis", "sequence_mis", "geometric_rs", "decoupled_ppo", "bypass_ppo")


def train(folder: Path, name: str, *overrides: str, policy: Path | None = None) -> Path:
    """Train the tiny policy on two tasks a step, four trials each; the run's folder."""
    run = folder / name
    if policy is not None:
        shutil.copytree(policy, run / "policy")
    done = subprocess.run(
        [
            *MAIN,
            *(f"run.folder={folder}", f"run.name={name}", "trainer.total_training_steps=2"),
            *("trainer.val_before_train=false", "trainer.test_freq=-1", "trainer.save_freq=-1"),
            *("data.train_batch_size=2", "actor_rollout_ref.rollout.n=4"),
            *("actor_rollout_ref.actor.ppo_mini_batch_size=2", *overrides),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return run


def told(run: Path, metric: str) -> list[float]:
    """A metric of verl's, step by step, from its console logger."""
    log = (run / "logs" / "training.log").read_text()
    return [float(value) for value in re.findall(rf"\b{re.escape(metric)}:(?:np\.float\d+\()?(-?[\d.e+-]+|nan)", log)]


def check(run: Path, *, compared: bool = True) -> list[dict[str, Any]]:
    lines = steps_of(run)
    assert [line["step"] for line in lines] == [1, 2]
    for line in lines:
        assert line["submitted"] == line["trained"] + line["dropped"]
        assert (line["proof_provenance"], line["proof_context"]) == (1.0, 1.0)
        assert line["loss_tokens"] > 0
        assert math.isfinite(line["gradient_norm"])
        if compared:
            assert line["pearson"] >= 0.999
    return lines


@pytest.fixture(scope="module")
def first_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """GRPO, which also makes the policy that all begin with."""
    return train(tmp_path_factory.mktemp("runs"), "grpo", "algorithm=grpo")


def test_grpo_trains(first_run: Path) -> None:
    check(first_run)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_an_algorithm_trains(algorithm: str, first_run: Path, tmp_path: Path) -> None:
    run = train(tmp_path, algorithm, f"algorithm={algorithm}", policy=first_run / "policy")
    lines = check(run)
    if algorithm == "ppo":
        losses, norms = told(run, "critic/vf_loss"), told(run, "critic/grad_norm")
        assert len(losses) == len(norms) == 2
        assert min(*losses, *norms) > 0
    if algorithm == "dapo":
        assert all((line["groups"], line["zero_variance_groups"], line["trained"]) == (2, 0, 8) for line in lines)


@pytest.mark.parametrize("correction", CORRECTIONS)
def test_a_correction_trains(correction: str, first_run: Path, tmp_path: Path) -> None:
    run = train(tmp_path, correction, f"correction={correction}", policy=first_run / "policy")
    check(run, compared=correction != "bypass_ppo")
    weights, rejected = told(run, "rollout_corr/rollout_is_mean"), told(run, "rollout_corr/rollout_rs_masked_fraction")
    assert len(weights) == (0 if correction in ("geometric_rs", "bypass_ppo") else 2)
    assert len(rejected) == (2 if correction in ("geometric_rs", "sequence_mis") else 0)
    # Rollout and trainer are of one number format here: nothing is far off.
    assert all(mean == pytest.approx(1.0, abs=1e-2) for mean in weights)
    assert all(share == 0.0 for share in rejected)

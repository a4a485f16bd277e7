"""Recipes compose, and a bad one is one plain line."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from lego_verl.compose import RECIPES, compose_recipe
from lego_verl.config import ConfigError, typed

EXPERIMENTS = sorted(path.stem for path in (RECIPES / "experiment").glob("*.yaml"))


def test_the_default_recipe_composes_verls_tree_and_ours() -> None:
    config = compose_recipe([])
    lego = typed(config)
    assert (lego.harness.name, lego.sandbox.backend, lego.tasks.kind, lego.policy.kind) == (
        "mini_swe_agent",
        "local",
        "toy",
        "tiny",
    )
    assert config.trainer.v1.trainer_mode == "harness_sync"
    assert config.actor_rollout_ref.rollout.name == "transformers"
    assert config.algorithm.adv_estimator == "grpo"


def test_any_key_of_verl_can_be_overridden() -> None:
    config = compose_recipe(["actor_rollout_ref.actor.optim.betas=[0.8,0.9]", "+trainer.something_new=3"])
    assert list(config.actor_rollout_ref.actor.optim.betas) == [0.8, 0.9]
    assert config.trainer.something_new == 3


def test_keys_of_lego_have_a_short_form() -> None:
    lego = typed(compose_recipe(["harness.turn_limit=5", "run.seed=7", "+harness.options.anything=1"]))
    assert (lego.harness.turn_limit, lego.run.seed, lego.harness.options["anything"]) == (5, 7, 1)


@pytest.mark.parametrize(
    ("override", "told"),
    [
        ("harnes=mini_swe_agent", "did you mean harness?"),
        ("harness=nope", "harness can be .*mini_swe_agent"),
        ("data.train_batch_sise=3", "did you mean data.train_batch_size?"),
        ("lego.harness.turn_limt=3", "did you mean lego.harness.turn_limit?"),
        ("lego.harness.turn_limit=many", "could not be converted to Integer"),
        ("lego.capture.reasoning=some", "reasoning"),
        ("+experiment=nope", "experiment can be"),
        ("+lego.sandbox.slotz=3", "slotz"),
        ("foo", "foo"),
    ],
)
def test_a_bad_override_is_one_line_that_names_it(override: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told.replace("?", r"\?")) as caught:
        typed(compose_recipe([override]))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_recipes_of_real_runs_compose(experiment: str) -> None:
    config = compose_recipe([f"+experiment={experiment}"])
    assert config.trainer.device == "cuda"
    assert typed(config).policy.kind == "pretrained"


@pytest.mark.parametrize("experiment", EXPERIMENTS)
def test_verl_accepts_recipes_of_real_runs(experiment: str) -> None:
    pytest.importorskip("verl", reason="the extra cpu is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "lego_verl.check", f"+experiment={experiment}"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert "verl accepts it" in done.stdout


def test_verl_refuses_in_one_line() -> None:
    pytest.importorskip("verl", reason="the extra cpu is not installed")
    done = subprocess.run(
        [sys.executable, "-m", "lego_verl.check", "actor_rollout_ref.actor.loss_agg_mode=nonsense"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("lego_verl: verl does not accept this recipe")
    assert "Traceback" not in done.stderr


def test_a_misspelt_key_stops_the_main_command_within_seconds() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lego_verl.main", "lego.harness.turn_limt=3"], capture_output=True, text=True, timeout=20
    )
    assert done.returncode == 2
    assert done.stderr == (
        "lego_verl: lego.harness.turn_limt: there is no such group or key; did you mean lego.harness.turn_limit?\n"
    )


def test_help_and_cfg_show_the_recipe() -> None:
    shown = subprocess.run([sys.executable, "-m", "lego_verl.main", "--help"], capture_output=True, text=True)
    assert shown.returncode == 0
    assert "harness: claude_code" in shown.stdout
    assert "lego.run.name" in shown.stdout
    composed = subprocess.run([sys.executable, "-m", "lego_verl.main", "--cfg", "job"], capture_output=True, text=True)
    assert composed.returncode == 0
    assert "adv_estimator: grpo" in composed.stdout


WITHOUT_EXTRAS = """
import importlib.machinery, runpy, sys
found = importlib.machinery.PathFinder.find_spec
hidden = ("verl", "torch", "pyarrow", "ray", "transformers")
def visible(name, *more):
    return None if name.split(".")[0] in hidden else found(name, *more)
importlib.machinery.PathFinder.find_spec = visible
sys.argv = ["lego_verl.main"]
runpy.run_module("lego_verl.main", run_name="__main__")
"""


def test_a_missing_extra_is_one_line() -> None:
    done = subprocess.run([sys.executable, "-c", WITHOUT_EXTRAS], capture_output=True, text=True, timeout=60)
    assert done.returncode == 2, done.stderr
    assert done.stderr.startswith("lego_verl: verl is not installed: pip install -e ")
    assert len(done.stderr.splitlines()) == 1


def test_folders_of_the_users_are_not_taken_for_our_packages(tmp_path: Path) -> None:
    """Who runs a recipe from a folder with a `recipes` or a `sandbox` of their own gets ours all the same."""
    for name in ("recipes", "sandbox", "harness_adapters"):
        (tmp_path / name).mkdir()
    command = [sys.executable, "-m", "lego_verl.main", "--cfg", "job"]
    shown = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert shown.returncode == 0, shown.stderr
    assert "agent_loop" in shown.stdout

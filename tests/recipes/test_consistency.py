"""Combinations that cannot work are refused before anything is loaded."""

from __future__ import annotations

import pytest

from lego_verl.compose import compose_recipe
from lego_verl.config import ConfigError, typed
from lego_verl.consistency import check_consistency


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (["data.train_batch_size=0"], "data.train_batch_size=0 must be at least 1"),
        (["actor_rollout_ref.rollout.n=1"], "trials of a task are compared"),
        (["trial.min_group=1"], "no baseline"),
        (["trial.min_group=9", "actor_rollout_ref.rollout.n=8"], "every group would be dropped"),
        (["actor_rollout_ref.actor.ppo_mini_batch_size=64", "data.train_batch_size=4"], "both count tasks"),
        (["actor_rollout_ref.rollout.max_model_len=99999"], "max_model_len"),
        (["actor_rollout_ref.rollout.calculate_log_probs=false"], "calculate_log_probs"),
        (["policy=scripted"], "no weights to train"),
        (["policy.family=sparse"], "family"),
        (["tasks=harbor"], "lego.tasks.train"),
        (["monitor.display=colourful"], "auto, live or lines"),
        (["sandbox.slots=0"], "lego.sandbox.slots=0"),
        (["trial.refills=-1"], "lego.trial.refills=-1"),
        (["guard.min_trained=25"], "lego.guard.min_trained=25.0 is a share"),
        (["trial.small_group=keep"], "small_group"),
    ],
)
def test_refused_in_one_line(overrides: list[str], told: str) -> None:
    def check() -> None:
        config = compose_recipe(overrides)
        check_consistency(config, typed(config))

    with pytest.raises(ConfigError, match=told) as caught:
        check()
    assert "\n" not in str(caught.value)


def test_the_default_recipe_is_consistent() -> None:
    config = compose_recipe([])
    check_consistency(config, typed(config))

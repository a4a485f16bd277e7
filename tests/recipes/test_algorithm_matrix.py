"""Every algorithm with every correction, policy and hardware composes, and verl's typed configuration takes it."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf

from lego_verl.compose import RECIPES, compose_recipe
from lego_verl.config import typed
from lego_verl.consistency import check_consistency

ALGORITHMS = ("ppo", "grpo", "gspo", "dapo", "rloo")
CORRECTIONS = (
    *("none", "token_tis", "sequence_tis", "token_mis", "sequence_mis", "geometric_rs", "decoupled_ppo"),
    "bypass_ppo",
)


def test_these_are_all() -> None:
    for group, names in (("algorithm", ALGORITHMS), ("correction", CORRECTIONS)):
        assert {path.stem for path in (RECIPES / group).glob("*.yaml")} == set(names)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("policy", ["tiny", "tiny_moe"])
@pytest.mark.parametrize("hardware", ["cpu", "8gpu"])
def test_verl_accepts_it(algorithm: str, policy: str, hardware: str) -> None:
    pytest.importorskip("verl", reason="the extra cpu is not installed")
    from verl.utils.config import omega_conf_to_dataclass

    from lego_verl.check import verl_accepts

    plain = composed(f"algorithm={algorithm}", f"policy={policy}", f"hardware={hardware}")
    verl_accepts(plain)
    for correction in CORRECTIONS:
        # What Hydra would do: the correction's files come after those of the other groups.
        config = OmegaConf.merge(plain, overrides_of("none"), overrides_of(correction))
        assert isinstance(config, DictConfig)
        check_consistency(config, typed(config))
        omega_conf_to_dataclass(config.algorithm)


def test_verls_vllm_on_a_cpu_is_accepted() -> None:
    pytest.importorskip("verl", reason="the extra cpu is not installed")
    from lego_verl.check import verl_accepts

    config = compose_recipe(["hardware=cpu_vllm"])
    check_consistency(config, typed(config))
    verl_accepts(config)
    rollout = config.actor_rollout_ref.rollout
    assert (rollout.name, rollout.enable_sleep_mode, config.trainer.device) == ("vllm", False, "cpu")


@cache
def composed(*overrides: str) -> DictConfig:
    return compose_recipe(overrides)


@cache
def overrides_of(correction: str) -> DictConfig:
    """What the file of a correction says."""
    said = OmegaConf.load(RECIPES / "correction" / f"{correction}.yaml")
    assert isinstance(said, DictConfig)
    said.pop("defaults", None)
    return said


def presets() -> dict[str, Any]:
    from verl.trainer.config.algorithm import RolloutCorrectionConfig

    return {
        "none": RolloutCorrectionConfig.disabled(),
        "token_tis": RolloutCorrectionConfig.decoupled_token_is(),
        "sequence_tis": RolloutCorrectionConfig.decoupled_seq_is(),
        "token_mis": RolloutCorrectionConfig.decoupled_token_icepop(threshold=2.0),
        "sequence_mis": RolloutCorrectionConfig.decoupled_seq_is_rs(),
        "geometric_rs": RolloutCorrectionConfig.decoupled_geo_rs(),
        "bypass_ppo": RolloutCorrectionConfig.bypass_ppo_clip(),
    }


def test_corrections_are_verls_presets() -> None:
    pytest.importorskip("verl", reason="the extra cpu is not installed")
    from verl.utils.config import omega_conf_to_dataclass

    for name, preset in presets().items():
        said = compose_recipe([f"correction={name}"]).algorithm.rollout_correction
        assert omega_conf_to_dataclass(said, type(preset)) == preset, name


def test_what_an_algorithm_is() -> None:
    recipes = {name: composed(f"algorithm={name}", "policy=tiny", "hardware=cpu") for name in ALGORITHMS}
    estimators = {name: config.algorithm.adv_estimator for name, config in recipes.items()}
    assert estimators == {"ppo": "gae", "grpo": "grpo", "gspo": "grpo", "dapo": "grpo", "rloo": "rloo"}
    assert [name for name, config in recipes.items() if config.algorithm.filter_groups.enable] == ["dapo"]
    losses = {name: config.actor_rollout_ref.actor.policy_loss.loss_mode for name, config in recipes.items()}
    assert [name for name, loss in losses.items() if loss == "gspo"] == ["gspo"]
    critic = recipes["ppo"].critic
    assert critic.strategy == recipes["ppo"].actor_rollout_ref.actor.strategy == "fsdp2"
    assert critic.ppo_mini_batch_size == recipes["ppo"].actor_rollout_ref.actor.ppo_mini_batch_size

"""Combinations that cannot work, found before anything is loaded. Needs neither verl nor torch."""

from __future__ import annotations

from omegaconf import DictConfig
from omegaconf.errors import InterpolationKeyError, MissingMandatoryValue

from lego_verl.config import ConfigError, LegoConfig


def check_consistency(config: DictConfig, lego: LegoConfig) -> None:
    """Check the parts of a recipe against each other.

    Raises:
        ConfigError: one line that says what to change.
    """
    rollout, actor = config.actor_rollout_ref.rollout, config.actor_rollout_ref.actor
    if lego.policy.kind in ("scripted", "endpoint"):
        raise ConfigError(
            f"policy={lego.policy.kind} has no weights to train; it is for python -m lego_verl.trial. Take policy=tiny"
        )
    _at_least(1, "data.train_batch_size", config.data.train_batch_size)
    _at_least(1, "actor_rollout_ref.actor.ppo_mini_batch_size", actor.ppo_mini_batch_size)
    _at_least(1, "actor_rollout_ref.actor.ppo_epochs", actor.ppo_epochs)
    _at_least(1, "lego.harness.turn_limit", lego.harness.turn_limit)
    _at_least(1, "lego.sandbox.slots", lego.sandbox.slots)
    _at_least(0, "lego.trial.retries", lego.trial.retries)
    grouped = config.algorithm.adv_estimator == "grpo"
    _at_least(2 if grouped else 1, "actor_rollout_ref.rollout.n", rollout.n, "trials of a task are compared")
    if grouped:
        _at_least(2, "lego.trial.min_group", lego.trial.min_group, "a group of one has no baseline")
    if actor.ppo_mini_batch_size > config.data.train_batch_size:
        raise ConfigError(
            f"actor_rollout_ref.actor.ppo_mini_batch_size={actor.ppo_mini_batch_size} is more than "
            f"data.train_batch_size={config.data.train_batch_size}: both count tasks"
        )
    if lego.trial.min_group > rollout.n:
        raise ConfigError(
            f"lego.trial.min_group={lego.trial.min_group} is more than actor_rollout_ref.rollout.n={rollout.n}: every "
            "group would be dropped"
        )
    if rollout.max_model_len and rollout.max_model_len > rollout.prompt_length + rollout.response_length:
        raise ConfigError(
            f"actor_rollout_ref.rollout.max_model_len={rollout.max_model_len} is more than prompt_length + "
            f"response_length={rollout.prompt_length + rollout.response_length}: verl would cut what was sampled"
        )
    if not rollout.calculate_log_probs:
        raise ConfigError("actor_rollout_ref.rollout.calculate_log_probs must be true: they are what is trained on")
    if lego.tasks.kind not in ("toy", "harbor"):
        raise ConfigError(f"lego.tasks.kind={lego.tasks.kind}: tasks are toy or harbor")
    if lego.tasks.kind == "harbor" and not lego.tasks.train:
        raise ConfigError("lego.tasks.train is missing: name a folder of Harbor tasks")
    if lego.monitor.display not in ("auto", "live", "lines"):
        raise ConfigError(f"lego.monitor.display={lego.monitor.display}: it is auto, live or lines")
    _resolves(config)


def _at_least(least: int, key: str, value: int, why: str = "") -> None:
    if value < least:
        raise ConfigError(f"{key}={value} must be at least {least}{': ' + why if why else ''}")


def _resolves(config: DictConfig) -> None:
    """Every ``${…}`` of this project's part leads somewhere."""
    try:
        for key in ("lego", "data", "trainer"):
            for _ in config[key].items():
                pass
    except (InterpolationKeyError, MissingMandatoryValue) as error:
        raise ConfigError((error.msg or str(error)).splitlines()[0]) from error

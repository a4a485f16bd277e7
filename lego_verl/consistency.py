"""Combinations that cannot work, found before anything is loaded. Needs neither verl nor torch."""

from __future__ import annotations

from omegaconf import DictConfig
from omegaconf.errors import InterpolationKeyError, MissingMandatoryValue

from lego_verl.algorithm_check import (
    CRITIC,
    check_correction,
    check_critic,
    check_dynamic_sampling,
    check_sampled_distribution,
)
from lego_verl.config import ConfigError, LegoConfig
from lego_verl.harness_mix import check_mix
from lego_verl.importance import check_importance
from lego_verl.model_check import check_model_folder
from lego_verl.recipe_tasks import KINDS
from lego_verl.router_replay import check_router_replay
from lego_verl.tracking_check import check_loggers

TRIAL_ESTIMATORS = ("grpo", "grpo_vectorized", "rloo", "rloo_vectorized")
"""Advantage estimators of verl whose statistics count trials here; verl's others count segments."""


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
    check_mix(lego.harness)
    _at_least(1, "lego.sandbox.slots", lego.sandbox.slots)
    _at_least(0, "lego.trial.retries", lego.trial.retries)
    if config.algorithm.adv_estimator == CRITIC:
        _at_least(1, "lego.trial.min_group", lego.trial.min_group)
    else:
        _at_least(2, "actor_rollout_ref.rollout.n", rollout.n, "trials of a task are compared")
        _at_least(2, "lego.trial.min_group", lego.trial.min_group, "a group of one has no baseline")
    _at_least(0, "lego.trial.refills", lego.trial.refills)
    if not 0 <= lego.guard.min_trained <= 1:
        raise ConfigError(f"lego.guard.min_trained={lego.guard.min_trained} is a share, from 0 to 1")
    check_loggers(config)
    check_loss_weight(config)
    check_dynamic_sampling(config)
    check_router_replay(config, lego)
    check_sampled_distribution(config)
    check_correction(config, lego)
    check_importance(config, lego)
    check_model_folder(config, lego)
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
    if lego.tasks.kind not in KINDS:
        raise ConfigError(f"lego.tasks.kind={lego.tasks.kind}: tasks are {', '.join(KINDS[:-1])} or {KINDS[-1]}")
    if lego.tasks.kind != "toy" and not lego.tasks.train:
        raise ConfigError("lego.tasks.train is missing: name a folder of Harbor tasks, or a dataset with swe_bench")
    if lego.monitor.display not in ("auto", "live", "lines"):
        raise ConfigError(f"lego.monitor.display={lego.monitor.display}: it is auto, live or lines")
    _resolves(config)


def check_loss_weight(config: DictConfig) -> None:
    """Refuse losses in which a trial that was split into segments would weigh more than one that was not.

    Raises:
        ConfigError: one line that says what to change. The reasons are in ``lego_verl/workers/loss_weight.py``.
    """
    algorithm, actor = config.algorithm, config.actor_rollout_ref.actor
    loss, mode = actor.policy_loss.loss_mode, actor.loss_agg_mode
    if algorithm.adv_estimator not in (*TRIAL_ESTIMATORS, CRITIC):
        raise ConfigError(
            f"algorithm.adv_estimator={algorithm.adv_estimator} counts segments, not trials: take one of "
            f"{', '.join(TRIAL_ESTIMATORS)}, {CRITIC}"
        )
    check_critic(config)
    if algorithm.use_kl_in_reward:
        raise ConfigError(
            "algorithm.use_kl_in_reward=true charges a trial for its last segment only: take "
            "actor_rollout_ref.actor.use_kl_loss"
        )
    if loss == "geo_mean":
        raise ConfigError("actor_rollout_ref.actor.policy_loss.loss_mode=geo_mean is a mean over segments: take gspo")
    if mode == "seq-mean-token-sum-norm" and not actor.loss_scale_factor:
        raise ConfigError(
            "actor_rollout_ref.actor.loss_agg_mode=seq-mean-token-sum-norm without loss_scale_factor divides by the "
            "width of a micro-batch: set actor_rollout_ref.actor.loss_scale_factor, for instance to response_length"
        )
    if config.distillation.enabled:
        raise ConfigError("distillation.enabled=true: verl has a teacher score the last segment of a trial only")
    if mode == "seq-mean-token-mean" or loss == "sapo":
        _weighs_segments(config)


def _weighs_segments(config: DictConfig) -> None:
    """The mode in which segments have weights; these reach verl's policy loss and nothing beside it."""
    actor = config.actor_rollout_ref.actor
    loss = actor.policy_loss.loss_mode
    beyond = {
        "actor_rollout_ref.actor.use_kl_loss": actor.use_kl_loss,
        "actor_rollout_ref.actor.entropy_coeff": actor.entropy_coeff,
        "actor_rollout_ref.actor.policy_loss.loss_mode": loss if loss == "bypass_mode" else None,
    }
    for key, value in beyond.items():
        if value:
            raise ConfigError(
                f"{key}={value} with a mean over a sequence's tokens (seq-mean-token-mean, sapo) counts segments, not "
                "trials: take another actor_rollout_ref.actor.loss_agg_mode"
            )


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

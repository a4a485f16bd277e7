"""Algorithms and corrections that verl would run, and that would not do what they say. Needs neither verl nor torch."""

from __future__ import annotations

from omegaconf import DictConfig

from lego_verl.config import ConfigError, LegoConfig
from lego_verl.importance import bounds_of

CRITIC = "gae"
"""verl's advantage estimator of PPO, which asks a critic and compares no trials."""
_CORRECTION = "algorithm.rollout_correction"
_LOSS = "actor_rollout_ref.actor.policy_loss"
_REJECTIONS = (
    *("token_k1", "token_k2", "token_k3", "seq_sum_k1", "seq_sum_k2", "seq_sum_k3"),
    *("seq_mean_k1", "seq_mean_k2", "seq_mean_k3", "seq_max_k2", "seq_max_k3"),
)
"""verl's ``rollout_rs`` (verl/trainer/ppo/rollout_corr_helper.py)."""
_SAMPLER = "pkg://lego_verl.workers.dynamic_sampling"


def check_critic(config: DictConfig) -> None:
    """Refuse a critic under which a trial that was split into segments would count otherwise than one that was not.

    Raises:
        ConfigError: one line that says what to change. The reasons are in ``lego_verl/workers/loss_weight.py``.
    """
    algorithm, critic = config.algorithm, config.critic
    uses = algorithm.adv_estimator == CRITIC if critic.enable is None else bool(critic.enable)
    if algorithm.adv_estimator == CRITIC:
        if not uses:
            raise ConfigError("algorithm.adv_estimator=gae asks a critic, and critic.enable=false: take algorithm=ppo")
        if algorithm.gamma != 1.0:
            raise ConfigError(
                f"algorithm.gamma={algorithm.gamma:g} discounts a trial's reward from the end of each of its segments: "
                "set it to 1"
            )
        if any(mode.startswith("token_") for mode in rejections(config)):
            raise ConfigError(
                f"{_CORRECTION}.rollout_rs={algorithm.rollout_correction.rollout_rs} may mask the token that a trial's "
                "reward is on, and verl's GAE then loses it: take correction=token_mis"
            )
    if not uses:
        return
    actor = config.actor_rollout_ref.actor
    if critic.ppo_mini_batch_size != actor.ppo_mini_batch_size:
        raise ConfigError(
            f"critic.ppo_mini_batch_size={critic.ppo_mini_batch_size} is not the actor's {actor.ppo_mini_batch_size}: "
            "a trial's segments share a mini-batch of both, so set both alike"
        )
    if critic.loss_agg_mode == "seq-mean-token-mean":
        raise ConfigError("critic.loss_agg_mode=seq-mean-token-mean counts segments, not trials: take token-mean")
    if critic.loss_agg_mode == "seq-mean-token-sum-norm" and not critic.loss_scale_factor:
        raise ConfigError("critic.loss_agg_mode=seq-mean-token-sum-norm wants critic.loss_scale_factor")


def check_dynamic_sampling(config: DictConfig) -> None:
    """Refuse verl's filter of groups without the sampler that accounts for what it leaves out, or without an end.

    Raises:
        ConfigError: one line that says what to change.
    """
    filtering, sampler = config.algorithm.filter_groups, config.trainer.v1.sampler
    if not (filtering and filtering.enable):
        return
    if sampler.custom_sampler.path != _SAMPLER:
        raise ConfigError(
            "algorithm.filter_groups.enable=true with verl's own sampler leaves groups out that the ledger misses: "
            "take algorithm=dapo"
        )
    if filtering.metric != "reward":
        raise ConfigError(f"algorithm.filter_groups.metric={filtering.metric}: groups are told apart by their reward")
    if filtering.max_num_gen_batches < 1:
        raise ConfigError(
            f"algorithm.filter_groups.max_num_gen_batches={filtering.max_num_gen_batches} samples for ever where every "
            "group has one reward: set it to 1 or more"
        )


def check_sampled_distribution(config: DictConfig) -> None:
    """Refuse log-probabilities of another distribution than the one that tokens are sampled from.

    Raises:
        ConfigError: one line that says what to change.
    """
    rollout, prefix = config.actor_rollout_ref.rollout, "actor_rollout_ref.rollout"
    if rollout.temperature <= 0:
        raise ConfigError(f"{prefix}.temperature={rollout.temperature:g} does not sample: the trainer divides by it")
    raw = rollout.name != "vllm" or rollout.logprobs_mode != "processed_logprobs"
    how = f"{prefix}.logprobs_mode={rollout.logprobs_mode}" if rollout.name == "vllm" else f"the server {rollout.name}"
    cut = {"top_p": rollout.top_p < 1, "top_k": rollout.top_k > 0}
    if rollout.name == "vllm":
        cut["temperature"] = rollout.temperature != 1
    for key in (key for key, cuts in cut.items() if cuts and raw):
        raise ConfigError(
            f"{prefix}.{key}={rollout[key]:g} changes what is sampled, and {how} reports raw log-probabilities, from "
            f"before it: set {key} to {'-1' if key == 'top_k' else '1'}"
            + (", or logprobs_mode to processed_logprobs" if rollout.name == "vllm" else "")
        )


def check_correction(config: DictConfig, lego: LegoConfig) -> None:
    """Refuse a rollout correction of which verl would do nothing, or something else, or that it does not know.

    Raises:
        ConfigError: one line that says what to change.
    """
    correction, loss = config.algorithm.rollout_correction, config.actor_rollout_ref.actor.policy_loss
    bypass = bool(correction and correction.get("bypass_mode"))
    if loss.loss_mode == "bypass_mode" and not bypass:
        raise ConfigError(
            f"{_LOSS}.loss_mode=bypass_mode takes the trainer's log-probabilities for the rollout's: set "
            f"{_CORRECTION}.bypass_mode=true"
        )
    if not correction:
        return
    _known(config)
    if not bypass:
        return
    if lego.guard.min_pearson > 0:
        raise ConfigError(
            f"{_CORRECTION}.bypass_mode=true computes no log-probabilities that the rollout's could be compared with: "
            "set lego.guard.min_pearson=0, or take correction=decoupled_ppo"
        )
    asked = {
        "rollout_is": correction.get("rollout_is"),
        "rollout_rs": correction.get("rollout_rs"),
        "loss_type": correction.get("loss_type") if correction.get("loss_type") != "ppo_clip" else None,
    }
    for key, value in asked.items():
        if value and not (loss.loss_mode == "bypass_mode" and loss.get("rollout_correction") == correction):
            raise ConfigError(
                f"{_CORRECTION}.{key}={value} with bypass_mode=true: verl's trainer does nothing of it. Set "
                f"bypass_mode=false, or {_LOSS}.loss_mode=bypass_mode and {_LOSS}.rollout_correction to the same"
            )


def rejections(config: DictConfig) -> list[str]:
    """The modes of ``rollout_rs``."""
    correction = config.algorithm.rollout_correction
    named = str((correction and correction.get("rollout_rs")) or "")
    return [mode.strip() for mode in named.split(",") if mode.strip()]


def _known(config: DictConfig) -> None:
    """verl finds out at its first step."""
    correction, modes = config.algorithm.rollout_correction, rejections(config)
    if correction.get("rollout_is") not in (None, "token", "sequence"):
        raise ConfigError(f"{_CORRECTION}.rollout_is={correction.rollout_is}: it is token, sequence or null")
    if correction.get("rollout_is"):
        bounds_of(correction.rollout_is_threshold)
    for mode in modes:
        if mode not in _REJECTIONS:
            raise ConfigError(f"{_CORRECTION}.rollout_rs={mode}: it is one of {', '.join(_REJECTIONS)}")
    if not modes:
        return
    thresholds = str(correction.get("rollout_rs_threshold") or "").split(",")
    if thresholds == [""] or len(thresholds) not in (1, len(modes)):
        raise ConfigError(
            f"{_CORRECTION}.rollout_rs_threshold={correction.get('rollout_rs_threshold')}: one threshold, or one for "
            f"each of {', '.join(modes)}"
        )
    for threshold in thresholds:
        bounds_of(threshold)

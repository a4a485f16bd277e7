"""Combinations that cannot work are refused before anything is loaded, in the one line that says what to change."""

from __future__ import annotations

import copy
import json
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from omegaconf import DictConfig, OmegaConf
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from lego_verl.compose import compose_recipe, expand
from lego_verl.config import ConfigError, typed
from lego_verl.consistency import check_consistency
from lego_verl.router_replay import wire_router_replay

R3 = "lego.router_replay=R3"
MOE = ("policy=tiny_moe", R3)
ROUTES = "actor_rollout_ref.rollout.enable_rollout_routing_replay=true"
ROLLOUT, ACTOR, MODEL = (f"actor_rollout_ref.{part}" for part in ("rollout", "actor", "model"))
MODE = f"{ACTOR}.fsdp_config.router_replay.mode"
CORRECTION = "algorithm.rollout_correction"
ATTENTION = "name those of attention, for instance [q_proj,k_proj,v_proj,o_proj]"


@cache
def composed(*groups: str) -> DictConfig:
    return compose_recipe(groups)


def recipe(*overrides: str) -> DictConfig:
    """A recipe; what are no groups are put in afterwards, so that it need not be composed for each of them."""
    keys = [override for override in overrides if "." in override.split("=")[0] and override != R3]
    config = copy.deepcopy(composed(*(override for override in overrides if override not in keys)))
    OmegaConf.set_struct(config, False)
    given = OmegaConf.from_dotlist([expand(key).lstrip("+") for key in keys])
    config = OmegaConf.merge(config, given)
    assert isinstance(config, DictConfig)
    wire_router_replay(config)
    return config


def refused(*overrides: str) -> str:
    """What a recipe is refused with."""
    config = recipe(*overrides)
    with pytest.raises(ConfigError) as caught:
        check_consistency(config, typed(config))
    return str(caught.value)


def accepted(*overrides: str) -> Any:
    config = recipe(*overrides)
    check_consistency(config, typed(config))
    return config


# Router replay.


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        ((R3,), f"{R3}, and lego.policy.family=dense has no experts to choose among: take policy=tiny_moe"),
        (
            (*MOE, f"{ACTOR}.strategy=fsdp"),
            f"{R3}, and {ACTOR}.strategy=fsdp has no engine that replays expert routes: take fsdp2, megatron, veomni",
        ),
        (
            ("policy=tiny_moe", ROUTES),
            f"{ROUTES} records expert routes that nothing replays, and the actor is of fsdp2: set {R3}, or {MODE}=R3",
        ),
        (
            ("policy=tiny_moe", f"+{MODE}=R3"),
            f"{MODE}=R3 replays expert routes that nothing records: set {R3}, or {ROUTES}",
        ),
        (
            (*MOE, f"{ROLLOUT}.name=vllm"),
            f"{R3}, and {ROLLOUT}.name=vllm returns no expert routes on trainer.device=cpu: take "
            f"{ROLLOUT}.name=transformers",
        ),
        (
            (*MOE, "hardware=8gpu", f"{ROLLOUT}.name=trtllm"),
            f"{R3}, and {ROLLOUT}.name=trtllm returns no expert routes: take transformers, vllm, sglang",
        ),
        (
            (*MOE, f"{MODEL}.external_lib=another"),
            f"{R3}, and {MODEL}.external_lib=another leaves verl's own FSDP engine, which replays nothing: set it to "
            "lego_verl.workers.engine",
        ),
        (
            (*MOE, f"{MODEL}.lora_rank=8"),
            f"{R3}, and {MODEL}.target_modules=all-linear puts LoRA on expert layers, which replay does not support: "
            + ATTENTION,
        ),
        (
            (*MOE, f"{MODEL}.lora_rank=8", f"{MODEL}.target_modules=[q_proj,gate_up_proj]"),
            f"{R3}, and {MODEL}.target_modules=gate_up_proj puts LoRA on expert layers, which replay does not support: "
            + ATTENTION,
        ),
        (
            (*MOE, f"{MODEL}.enable_activation_offload=true", f"{MODEL}.enable_gradient_checkpointing=true"),
            f"{R3} does not go with {MODEL}.enable_activation_offload and enable_gradient_checkpointing together: set "
            "one of them to false",
        ),
    ],
)
def test_a_replay_that_cannot_work(overrides: tuple[str, ...], told: str) -> None:
    assert refused(*overrides) == told


@pytest.mark.parametrize("hardware", ["cpu", "8gpu"])
def test_one_key_wires_both_ends(hardware: str) -> None:
    config = accepted(*MOE, f"hardware={hardware}")
    assert config.actor_rollout_ref.rollout.enable_rollout_routing_replay is True
    assert config.actor_rollout_ref.actor.fsdp_config.router_replay.mode == "R3"
    assert config.actor_rollout_ref.model.external_lib == "lego_verl.workers.engine"
    off = accepted("policy=tiny_moe", f"hardware={hardware}")
    assert off.actor_rollout_ref.rollout.enable_rollout_routing_replay is False
    assert "router_replay" not in off.actor_rollout_ref.actor.fsdp_config


def test_the_engine_of_the_strategy_is_wired() -> None:
    config = recipe(*MOE, "model_engine=megatron", f"{ACTOR}.strategy=megatron")
    assert config.actor_rollout_ref.actor.megatron.router_replay.mode == "R3"


def test_adapters_on_attention_pass() -> None:
    accepted(*MOE, f"{MODEL}.lora_rank=8", f"{MODEL}.target_modules=[q_proj,k_proj,v_proj,o_proj]")


# The model's own configuration.


QWEN3_MOE = {"model_type": "qwen3_moe", "num_hidden_layers": 3, "num_experts_per_tok": 2, "num_experts": 8}


def model_folder(folder: Path, vocabulary: int = 4, tokens: int = 4, **settings: Any) -> str:
    words = {f"w{number}": number for number in range(tokens)}
    Tokenizer(WordLevel(words, unk_token="w0")).save(str(folder / "tokenizer.json"))
    (folder / "config.json").write_text(json.dumps({"vocab_size": vocabulary, **settings}))
    return f"policy.model={folder}"


def test_a_dense_model_of_a_folder(tmp_path: Path) -> None:
    model = model_folder(tmp_path, model_type="qwen3", num_hidden_layers=3)
    assert refused(model, "policy.kind=pretrained", R3) == (
        f"{ROUTES}, and the model (qwen3) has no experts to choose among: set lego.router_replay=disabled"
    )


@pytest.mark.parametrize(
    ("override", "trained"),
    [
        (f"+{MODEL}.override_config.num_experts_per_tok=4", "3 layers, top 4 of 8 experts"),
        (f"+{MODEL}.override_config.num_hidden_layers=2", "2 layers, top 2 of 8 experts"),
    ],
)
def test_layers_or_top_k_that_differ(tmp_path: Path, override: str, trained: str) -> None:
    model = model_folder(tmp_path, **QWEN3_MOE)
    accepted(model, "policy.kind=pretrained", R3)
    assert refused(model, "policy.kind=pretrained", R3, override) == (
        f"{ROUTES}, and the rollout's model has 3 layers, top 2 of 8 experts, the trainer's {trained}: remove them "
        f"from {MODEL}.override_config"
    )


def test_a_vocabulary_that_is_not_the_tokenizers(tmp_path: Path) -> None:
    model = model_folder(tmp_path, vocabulary=8, tokens=4)
    vllm = (model, "policy.kind=pretrained", "hardware=8gpu")
    assert refused(*vllm) == (
        "the model's vocab_size=8 is not the tokenizer's 4: with vllm verl samples among these alone, and the "
        "trainer's log-probabilities are over all: cut the model's embedding, or set "
        "lego.policy.padded_vocabulary=true where the other rows have no probability"
    )
    accepted(*vllm, "policy.padded_vocabulary=true")
    accepted(model, "policy.kind=pretrained")  # this project's own server samples among all
    model = model_folder(tmp_path, vocabulary=4, tokens=5)
    assert refused(model, "policy.kind=pretrained") == (
        "the tokenizer has 5 tokens and the model's vocab_size is 4: some have no row"
    )


# Log-probabilities and importance weights.


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        (
            (f"{ROLLOUT}.top_p=0.9",),
            f"{ROLLOUT}.top_p=0.9 changes what is sampled, and the server transformers reports raw log-probabilities, "
            "from before it: set top_p to 1",
        ),
        (
            ("hardware=8gpu", f"{ROLLOUT}.top_k=20", f"{ROLLOUT}.logprobs_mode=raw_logprobs"),
            f"{ROLLOUT}.top_k=20 changes what is sampled, and {ROLLOUT}.logprobs_mode=raw_logprobs reports raw "
            "log-probabilities, from before it: set top_k to -1, or logprobs_mode to processed_logprobs",
        ),
        (
            ("hardware=8gpu", f"{ROLLOUT}.temperature=0.6", f"{ROLLOUT}.logprobs_mode=raw_logprobs"),
            f"{ROLLOUT}.temperature=0.6 changes what is sampled, and {ROLLOUT}.logprobs_mode=raw_logprobs reports raw "
            "log-probabilities, from before it: set temperature to 1, or logprobs_mode to processed_logprobs",
        ),
        ((f"{ROLLOUT}.temperature=0",), f"{ROLLOUT}.temperature=0 does not sample: the trainer divides by it"),
        (
            ("+experiment=qwen3_8b_mini_swe_agent", "correction=sequence_tis"),
            f"{CORRECTION}.rollout_is=sequence over up to 30000 tokens whose log-ratios deviate by 0.024 leaves an "
            "effective sample size of 0.04 of the trials, under lego.correction.min_effective_share=0.25: take "
            "correction=token_tis, or set lego.correction.log_ratio_std to what was measured",
        ),
        (
            (
                *("correction=token_tis", "correction.log_ratio_std=0.07"),
                *(f"{CORRECTION}.rollout_rs='token_k2,seq_sum_k1'", f"{CORRECTION}.rollout_rs_threshold='0.1,0.5_2.0'"),
            ),
            f"{CORRECTION}.rollout_rs=seq_sum_k1 over up to 512 tokens whose log-ratios deviate by 0.07 leaves an "
            "effective sample size of 0.22 of the trials, under lego.correction.min_effective_share=0.25: take "
            "correction=token_tis, or set lego.correction.log_ratio_std to what was measured",
        ),
        (
            (f"{CORRECTION}.bypass_mode=true",),
            f"{CORRECTION}.bypass_mode=true computes no log-probabilities that the rollout's could be compared with: "
            "set lego.guard.min_pearson=0, or take correction=decoupled_ppo",
        ),
        (
            ("correction=bypass_ppo", f"{CORRECTION}.rollout_is=token"),
            f"{CORRECTION}.rollout_is=token with bypass_mode=true: verl's trainer does nothing of it. Set "
            f"bypass_mode=false, or {ACTOR}.policy_loss.loss_mode=bypass_mode and "
            f"{ACTOR}.policy_loss.rollout_correction to the same",
        ),
        (
            (f"{ACTOR}.policy_loss.loss_mode=bypass_mode",),
            f"{ACTOR}.policy_loss.loss_mode=bypass_mode takes the trainer's log-probabilities for the rollout's: set "
            f"{CORRECTION}.bypass_mode=true",
        ),
        ((f"{CORRECTION}.rollout_is=word",), f"{CORRECTION}.rollout_is=word: it is token, sequence or null"),
        (
            (f"{CORRECTION}.rollout_rs=token_k1",),
            f"{CORRECTION}.rollout_rs_threshold=None: one threshold, or one for each of token_k1",
        ),
        (
            ("correction=token_tis", f"{CORRECTION}.rollout_is_threshold=two"),
            "algorithm.rollout_correction: two is no threshold (2.0, or 0.5_2.0)",
        ),
        # Algorithms.
        (
            ("algorithm=ppo", "algorithm.gamma=0.99"),
            "algorithm.gamma=0.99 discounts a trial's reward from the end of each of its segments: set it to 1",
        ),
        (
            ("algorithm=ppo", f"{CORRECTION}.rollout_rs=token_k1", f"{CORRECTION}.rollout_rs_threshold=2.0"),
            f"{CORRECTION}.rollout_rs=token_k1 may mask the token that a trial's reward is on, and verl's GAE then "
            "loses it: take correction=token_mis",
        ),
        (
            ("algorithm=ppo", "critic.enable=false"),
            "algorithm.adv_estimator=gae asks a critic, and critic.enable=false: take algorithm=ppo",
        ),
        (
            ("algorithm=ppo", "critic.ppo_mini_batch_size=2"),
            "critic.ppo_mini_batch_size=2 is not the actor's 4: a trial's segments share a mini-batch of both, so set "
            "both alike",
        ),
        (
            ("algorithm=ppo", "critic.loss_agg_mode=seq-mean-token-mean"),
            "critic.loss_agg_mode=seq-mean-token-mean counts segments, not trials: take token-mean",
        ),
        (
            ("algorithm.filter_groups.enable=true",),
            "algorithm.filter_groups.enable=true with verl's own sampler leaves groups out that the ledger misses: "
            "take algorithm=dapo",
        ),
        (
            ("algorithm=dapo", "algorithm.filter_groups.max_num_gen_batches=0"),
            "algorithm.filter_groups.max_num_gen_batches=0 samples for ever where every group has one reward: set it "
            "to 1 or more",
        ),
    ],
)
def test_what_would_not_be_what_it_says(overrides: tuple[str, ...], told: str) -> None:
    assert refused(*overrides) == told


def test_a_single_trial_a_task_is_for_a_critic_alone() -> None:
    alone = (f"{ROLLOUT}.n=1", "trial.min_group=1")
    accepted("algorithm=ppo", *alone)
    assert "trials of a task are compared" in refused("algorithm=grpo", *alone)


def test_it_is_one_line_of_the_command_before_anything_is_loaded() -> None:
    """Field fault 13: an unsupported combination exits before weights load."""
    done = subprocess.run([sys.executable, "-m", "lego_verl.main", R3], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2
    assert done.stdout == ""
    assert done.stderr == f"lego_verl: {refused(R3)}\n"

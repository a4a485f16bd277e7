"""A trial that was split weighs what it weighs whole (field fault 22), by verl's own losses and estimators."""

from __future__ import annotations

import copy
import functools
import random
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import torch
import transfer_queue as tq
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from split_trials import ONE_SPLIT, Store, Trial, Workers, actor_config, gradient, steps
from verl.protocol import DataProto
from verl.trainer.ppo.core_algos import agg_loss
from verl.trainer.ppo.v1.trainer_sync import PPOTrainerSync
from verl.trainer.ppo.v1.utils import compute_advantage_for_multi_trajectories

from lego_verl.compose import compose_recipe
from lego_verl.config import ConfigError
from lego_verl.consistency import TRIAL_ESTIMATORS, check_loss_weight
from lego_verl.workers.loss_weight import MODES, loss_weights, trial_advantages
from lego_verl.workers.mini_batches import whole_trials
from lego_verl.workers.trial_trainer import TrialTrainer

FIXED = settings(max_examples=25, deadline=None, derandomize=True)


# The weights alone, against verl's aggregation.


@st.composite
def segments(draw: st.DrawFn) -> list[list[list[int]]]:
    """Trials of segments of masks."""
    mask = st.lists(st.integers(0, 1), min_size=1, max_size=6)
    return draw(st.lists(st.lists(mask, min_size=1, max_size=4), min_size=1, max_size=5))


def padded(rows: Sequence[Sequence[float]]) -> torch.Tensor:
    return torch.nn.utils.rnn.pad_sequence([torch.tensor(row, dtype=torch.float64) for row in rows], batch_first=True)


def cut(row: list[float], like: list[list[int]]) -> list[list[float]]:
    """The row in pieces as long as the trial's segments."""
    ends = np.cumsum([len(segment) for segment in like])
    return [part.tolist() for part in np.split(np.array(row), ends)[: len(like)]]


@pytest.mark.parametrize("mode", MODES)
@FIXED
@given(trials=segments(), seed=st.integers(0, 9))
def test_verls_aggregation_of_weighted_segments_is_that_of_whole_trials(
    mode: str, trials: list[list[list[int]]], seed: int
) -> None:
    whole = padded([[token for segment in trial for token in segment] for trial in trials])
    loss = torch.rand(whole.shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    of_trial = [number for number, trial in enumerate(trials) for _ in trial]
    mask = padded([segment for trial in trials for segment in trial])
    parts = padded([part for trial, row in zip(trials, loss.tolist(), strict=True) for part in cut(row, trial)])
    weights = loss_weights(of_trial, mask.sum(-1), mode)
    scale = {"batch_num_tokens": int(whole.sum()) or 1, "global_batch_size": len(trials), "loss_scale_factor": 8}
    expected = agg_loss(loss, whole, mode, dp_size=2, **scale)
    weighted = agg_loss(parts * weights[:, None], mask, mode, dp_size=2, **scale)
    torch.testing.assert_close(weighted, expected, rtol=1e-5, atol=1e-7)
    # The same by the formulas of the module, without verl.
    sums, counts = (loss * whole).sum(-1), whole.sum(-1)
    brute = {
        "token-mean": sums.sum() / scale["batch_num_tokens"],
        "token-sum": sums.sum(),
        "seq-mean-token-sum": sums.sum() / len(trials),
        "seq-mean-token-sum-norm": sums.sum() / len(trials) / 8,
        "seq-mean-token-mean": (sums / counts.clamp(min=1)).sum() / len(trials),
    }
    torch.testing.assert_close(expected, 2 * brute[mode], rtol=1e-6, atol=1e-7)


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ValueError, match="token-median"):
        loss_weights(["a"], torch.ones(1), "token-median")


# Group statistics, by verl's estimators.


def rows_of(trials: Sequence[Trial], *, split: bool) -> tuple[DataProto, list[str], torch.Tensor]:
    """The data that verl's advantage gets, its keys, and each row's reward."""
    store = Store()
    batch = store.fill(trials, split=split)
    data = store.kv_batch_get(batch.keys, "train", ["response_mask", "rm_scores"]).to_padded_tensor()
    data["token_level_rewards"] = data["rm_scores"]
    groups = np.array([key.split("_")[0] for key in batch.keys], dtype=object)
    return DataProto(batch=data, non_tensor_batch={"uid": groups}), batch.keys, data["rm_scores"].sum(-1)


def verls_advantages(trials: Sequence[Trial], estimator: str, *, split: bool) -> list[float]:
    """The advantage of every trial's last segment."""
    data, keys, _ = rows_of(trials, split=split)
    config = OmegaConf.create({})
    data = compute_advantage_for_multi_trajectories(data, keys, adv_estimator=estimator, config=config)
    per_trial = {}
    for key, row in zip(keys, data.batch["advantages"], strict=True):
        per_trial[key.rsplit("_", 1)[0]] = float(row[row.nonzero()[:1]].sum())
    return list(per_trial.values())


@pytest.mark.parametrize("estimator", TRIAL_ESTIMATORS)
@FIXED
@given(trials=steps())
def test_a_group_counts_each_trial_once(estimator: str, trials: list[Trial]) -> None:
    _, keys, rewards = rows_of(trials, split=True)
    of_row = [key.rsplit("_", 1)[0] for key in keys]
    groups = [key.split("_")[0] for key in keys]
    per_row = trial_advantages(rewards, of_row, groups, estimator, config=OmegaConf.create({}))
    per_trial = dict(zip(of_row, per_row.tolist(), strict=True))
    assert list(per_trial.values()) == pytest.approx(verls_advantages(trials, estimator, split=False), abs=1e-5)
    assert per_row.tolist() == [per_trial[trial] for trial in of_row]


def test_verl_itself_counts_trials_for_grpo_and_segments_for_rloo() -> None:
    """What verl 0.9.1 does; when this fails, ``trial_advantages`` may have become unnecessary."""
    whole = verls_advantages(ONE_SPLIT, "grpo", split=False)
    assert verls_advantages(ONE_SPLIT, "grpo", split=True) == pytest.approx(whole)
    assert verls_advantages(ONE_SPLIT, "rloo", split=True) != pytest.approx(
        verls_advantages(ONE_SPLIT, "rloo", split=False)
    )


# The gradient of a step, by verl's trainer, loss and cuts.


@functools.cache
def recipe() -> Any:
    return compose_recipe([])


class Tokenizer:
    eos_token_id = 0


class WholeTrials(TrialTrainer, PPOTrainerSync):
    """As ``HarnessTrainer`` mixes them."""


def trained(
    monkeypatch: pytest.MonkeyPatch,
    trials: Sequence[Trial],
    *,
    split: bool,
    trainer: type[PPOTrainerSync] = WholeTrials,
    estimator: str = "grpo",
    ranks: int = 1,
    mode: str = "seq-mean-token-mean",
    micro: int = 2,
    loss: str = "vanilla",
    mini_batch: int = 1,
    shuffle: bool = False,
    epochs: int = 1,
    meanwhile: Callable[[Store], None] = lambda store: None,
) -> Workers:
    """verl's balance -> advantage -> update on a step's trials.

    Args:
        mini_batch: groups of two trials in a mini-batch.
        meanwhile: what happens to the step's data between verl's advantages and their weighing.
    """
    store = Store()
    for name in ("kv_batch_get", "kv_batch_put"):
        monkeypatch.setattr(tq, name, getattr(store, name))
    made = trainer.__new__(trainer)
    made.config = copy.deepcopy(recipe())
    made.config.algorithm.adv_estimator = estimator
    made.config.actor_rollout_ref.rollout.n = 2
    actor = made.config.actor_rollout_ref.actor
    actor.ppo_mini_batch_size, actor.ppo_epochs, actor.shuffle = mini_batch, epochs, shuffle
    actor.loss_agg_mode, actor.policy_loss.loss_mode = mode, loss
    made.tokenizer, made.use_critic, made.global_steps = Tokenizer(), False, 1
    workers = Workers(store, ranks=ranks, mode=mode, micro=micro, loss=loss)
    made.actor_rollout_wg = workers
    batch = made._balance_batch(store.fill(trials, split=split), {})
    store.compute_old_log_probs()
    meanwhile(store)
    batch = made._compute_advantage(batch, {})
    made._update_actor(batch, {})
    assert made.actor_rollout_wg is workers
    return workers


def same(left: list[torch.Tensor], right: list[torch.Tensor]) -> bool:
    return len(left) == len(right) and all(
        torch.allclose(*pair, rtol=1e-4, atol=1e-7) for pair in zip(left, right, strict=True)
    )


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("micro", [1, 3])
def test_every_optimizer_step_has_the_gradient_of_whole_trials(
    monkeypatch: pytest.MonkeyPatch, mode: str, ranks: int, micro: int
) -> None:
    """Two mini-batches of two trials; the first trial became three segments."""
    whole = trained(monkeypatch, ONE_SPLIT, split=False, trainer=PPOTrainerSync, mode=mode, micro=micro).gradients
    assert len(whole) == 2
    assert all(float(step.abs().max()) > 1e-3 for step in whole)
    split = trained(monkeypatch, ONE_SPLIT, split=True, mode=mode, ranks=ranks, micro=micro).gradients
    assert same(split, whole)


@pytest.mark.parametrize("mode", MODES)
def test_verl_itself_weighs_segments(monkeypatch: pytest.MonkeyPatch, mode: str) -> None:
    """The control: without this project's trainer the same check finds more steps, of other gradients."""
    whole = trained(monkeypatch, ONE_SPLIT, split=False, trainer=PPOTrainerSync, mode=mode).gradients
    split = trained(monkeypatch, ONE_SPLIT, split=True, trainer=PPOTrainerSync, mode=mode).gradients
    assert len(split) == 3
    assert not same(split[:2], whole)
    # Where a mini-batch is divided by a constant, the step's sum is right at least.
    constant = mode in ("token-sum", "seq-mean-token-sum", "seq-mean-token-sum-norm")
    assert same([sum(split)], [sum(whole)]) == constant


@settings(FIXED, max_examples=12)
@given(
    trials=steps(),
    mode=st.sampled_from(MODES),
    ranks=st.integers(1, 3),
    micro=st.integers(1, 4),
    loss=st.sampled_from(["vanilla", "cispo", "dppo_tv", "sapo"]),
    shuffle=st.booleans(),
    estimator=st.sampled_from(TRIAL_ESTIMATORS),
)
def test_any_step_in_one_mini_batch(
    trials: list[Trial], mode: str, ranks: int, micro: int, loss: str, shuffle: bool, estimator: str
) -> None:
    """Six trials with any cuts in a mini-batch for six, so that the draw of mini-batches has no part."""
    how = {"mode": mode, "loss": loss, "estimator": estimator, "mini_batch": 3}
    with pytest.MonkeyPatch.context() as patch:
        whole = trained(patch, trials, split=False, trainer=PPOTrainerSync, **how).gradients
        split = trained(patch, trials, split=True, ranks=ranks, micro=micro, shuffle=shuffle, **how).gradients
    assert len(whole) == 1
    assert same(split, whole)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("seed", range(3))
def test_the_weight_of_a_trial_whose_segments_share_no_mini_batch(mode: str, seed: int) -> None:
    """Weights alone: all modes but token-mean sum up to the same over any mini-batches of a constant size."""
    store = Store()
    batch = store.fill(ONE_SPLIT, split=True)
    store.compute_old_log_probs()
    trials = [key.rsplit("_", 1)[0] for key in batch.keys]
    whole, config = Store(), actor_config(mode)
    whole_batch = whole.fill(ONE_SPLIT, split=False)
    whole.compute_old_log_probs()
    counts = torch.stack([store.rows[key]["response_mask"].sum() for key in batch.keys])
    for key, weight in zip(batch.keys, loss_weights(trials, counts, mode), strict=True):
        store.rows[key]["rollout_is_weights"] = torch.full((len(store.rows[key]["responses"]),), float(weight))
    for each in (store, whole):
        for row in each.rows.values():
            row["advantages"] = row["response_mask"] * (row["rm_scores"].sum() - 0.4)
    keys = random.Random(seed).sample(batch.keys, len(batch.keys))
    apart = [gradient([store.kv_batch_get([key], "train")], config, 1, 4) for key in keys]
    together = gradient([whole.kv_batch_get(whole_batch.keys, "train")], config, 4, 4)
    assert same([sum(apart)], [together]) == (mode != "token-mean")


def test_a_step_without_splits_goes_verls_way(monkeypatch: pytest.MonkeyPatch) -> None:
    how = {"split": False, "shuffle": True, "epochs": 3}
    ours = trained(monkeypatch, ONE_SPLIT, **how)
    verls = trained(monkeypatch, ONE_SPLIT, trainer=PPOTrainerSync, **how)
    assert all(torch.equal(*pair) for pair in zip(ours.gradients, verls.gradients, strict=True))
    assert "rollout_is_weights" not in next(iter(ours.store.rows.values()))


def test_epochs_repeat_the_mini_batches_and_the_draw_changes_with_the_step(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = trained(monkeypatch, ONE_SPLIT, split=True, epochs=2, shuffle=True).gradients
    assert len(steps) == 4
    assert same(steps[:2], steps[2:])
    trials = [str(number) for number in range(20)]
    draws = {whole_trials(trials, trials_each=5, ranks=1, shuffle=random.Random(f"42 {step}")) for step in range(5)}
    assert len(draws) == 5


def test_a_rejected_last_segment_leaves_the_trials_advantage(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rollout correction masks a whole segment: verl reads the trial's advantage off it, and finds 0."""

    def reject(store: Store) -> None:
        last = store.rows["group0_0_2"]
        last["response_mask"] = torch.zeros_like(last["response_mask"])

    workers = trained(monkeypatch, ONE_SPLIT, split=True, meanwhile=reject)
    first, other = workers.store.rows["group0_0_0"], workers.store.rows["group0_1_0"]
    assert first["advantages"].max() == pytest.approx(-float(other["advantages"].min()))
    # 4 and 1 loss tokens are left of the trial.
    assert first["rollout_is_weights"].tolist() == pytest.approx([0.8] * 4)
    assert workers.store.rows["group0_0_1"]["rollout_is_weights"].tolist() == pytest.approx([0.2])
    verls = trained(monkeypatch, ONE_SPLIT, split=True, trainer=PPOTrainerSync, meanwhile=reject)
    assert verls.store.rows["group0_0_0"]["advantages"].abs().max() == 0


def test_weights_of_rollout_correction_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    def correct(store: Store) -> None:
        for row in store.rows.values():
            row["rollout_is_weights"] = torch.full((len(row["responses"]),), 0.5)

    rows = trained(monkeypatch, ONE_SPLIT, split=True, meanwhile=correct).store.rows
    assert rows["group0_0_0"]["rollout_is_weights"].tolist() == pytest.approx([0.5 * 4 / 7] * 4)
    assert rows["group0_1_0"]["rollout_is_weights"].max() == 0.5


# Mini-batches.


@FIXED
@given(
    sizes=st.lists(st.integers(1, 4), min_size=1, max_size=12),
    each=st.integers(1, 5),
    ranks=st.integers(1, 4),
    seed=st.none() | st.integers(0, 5),
)
def test_mini_batches_part_no_trial(sizes: list[int], each: int, ranks: int, seed: int | None) -> None:
    trials = [f"trial{number}" for number, size in enumerate(sizes) for _ in range(size)]
    random.Random(0).shuffle(trials)
    made = whole_trials(trials, trials_each=each, ranks=ranks, shuffle=None if seed is None else random.Random(seed))
    assert sorted(row for rows in made.members for row in rows) == list(range(len(trials)))
    assert len(made.members) == -(-len(sizes) // each)
    of = [{trials[row] for row in rows} for rows in made.members]
    assert sum(map(len, of)) == len(sizes)
    assert max(map(len, of)) <= each
    order = made.order([10] * made.total, ranks)
    assert sorted(order) == list(range(made.total))
    # verl's cuts: by rank, then by mini-batch.
    share, part = made.total // ranks, made.rows // ranks
    for number, rows in enumerate(made.members):
        found = [order[rank * share + number * part + i] for rank in range(ranks) for i in range(part)]
        assert {row for row in found if row < len(trials)} == set(rows)


# What is refused.


@pytest.mark.parametrize(
    ("overrides", "told"),
    [
        ({"algorithm.adv_estimator": "remax"}, "adv_estimator=remax counts segments"),
        ({"algorithm.adv_estimator": "opo"}, "take one of grpo, "),
        ({"algorithm.use_kl_in_reward": True}, "last segment only"),
        ({"actor_rollout_ref.actor.policy_loss.loss_mode": "geo_mean"}, "geo_mean is a mean over segments"),
        ({"actor_rollout_ref.actor.loss_agg_mode": "seq-mean-token-sum-norm"}, "set .*loss_scale_factor"),
        ({"distillation.enabled": True}, "teacher"),
        (
            {
                "actor_rollout_ref.actor.loss_agg_mode": "seq-mean-token-mean",
                "actor_rollout_ref.actor.use_kl_loss": True,
            },
            "use_kl_loss=True",
        ),
        (
            {"actor_rollout_ref.actor.policy_loss.loss_mode": "sapo", "actor_rollout_ref.actor.entropy_coeff": 0.1},
            "entropy_coeff=0.1",
        ),
        (
            {
                "actor_rollout_ref.actor.loss_agg_mode": "seq-mean-token-mean",
                "actor_rollout_ref.actor.policy_loss.loss_mode": "bypass_mode",
            },
            "loss_mode=bypass_mode",
        ),
    ],
)
def test_what_would_weigh_segments_is_refused(overrides: dict[str, Any], told: str) -> None:
    config = copy.deepcopy(recipe())
    for key, value in overrides.items():
        OmegaConf.update(config, key, value)
    with pytest.raises(ConfigError, match=told):
        check_loss_weight(config)


def test_kl_and_entropy_pass_where_segments_weigh_1() -> None:
    config = copy.deepcopy(recipe())
    config.actor_rollout_ref.actor.use_kl_loss = True
    config.actor_rollout_ref.actor.entropy_coeff = 0.01
    check_loss_weight(config)

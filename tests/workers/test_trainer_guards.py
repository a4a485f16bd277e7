"""What stops a step between its log-probabilities and its update, and what is written of it."""

from __future__ import annotations

import json
import math
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import transfer_queue as tq
from transfer_queue import KVBatchMeta

from lego_verl.compose import compose_recipe
from lego_verl.config import typed
from lego_verl.router_replay import wire_router_replay
from lego_verl.workers import canary_readings
from lego_verl.workers.alignment_batch import Row, step_alignment, step_routes
from lego_verl.workers.alignment_routes import agreed_share, replays, route_shape, routes_of_loss_tokens
from lego_verl.workers.fidelity import FidelityError, check_alignment
from lego_verl.workers.step_account import StepAccount
from lego_verl.workers.step_line import logged, step_line
from lego_verl.workers.trainer import HarnessTrainer


def row(version: int, *, noise: float, seed: int = 0) -> Row:
    """Fifty tokens that one version sampled; ``noise`` lies between what both sides say of them."""
    generator = np.random.default_rng(seed)
    q = -3 * generator.random(50, dtype=np.float32)
    p = q + np.float32(noise) * generator.standard_normal(50, dtype=np.float32)
    return Row(p, q, np.ones(50, dtype=bool), 10, 0, "h", [(version, 50)])


recipe = cache(lambda *overrides: compose_recipe(list(overrides)))
"""Composed once: nothing here changes it."""


def trainer(*overrides: str) -> HarnessTrainer:
    """At step 5, whose weights are version 4."""
    made = object.__new__(HarnessTrainer)
    made.config = recipe(*overrides)
    made._lego, made.global_steps, made.timing_raw = typed(made.config), 5, {}
    return made


def guarded(rows: list[Row], *overrides: str, ages: bool = True) -> None:
    check_alignment(step_alignment(rows, version=4), typed(recipe(*overrides)).guard, step=5, ages=ages)


def test_tokens_of_the_trainers_own_weights_must_agree() -> None:
    guarded([row(4, noise=1e-4)])
    with pytest.raises(FidelityError, match=r"step 5: .* correlate at 0\.8\d+, under lego.guard.min_pearson=0.999"):
        guarded([row(4, noise=0.3)])
    guarded([row(4, noise=0.3)], "guard.min_pearson=0.5")
    guarded([row(4, noise=0.3)], "guard.min_pearson=0")


def test_tokens_of_older_weights_need_not() -> None:
    guarded([row(2, noise=0.3)])
    guarded([row(2, noise=0.3), row(4, noise=1e-4)])
    with pytest.raises(FidelityError, match="min_pearson"):
        guarded([row(2, noise=1e-4), row(4, noise=0.3, seed=1)])


def test_where_steps_do_not_overlap_no_token_is_older() -> None:
    """Else a wrong version number would take it out of the correlation's sight."""
    guarded([row(4, noise=1e-4)], ages=False)
    with pytest.raises(FidelityError, match=r"step 5: tokens were sampled by other weights .*\(lag: tokens 1: 50\)"):
        guarded([row(3, noise=0.3)], ages=False)
    with pytest.raises(FidelityError, match="other weights"):
        guarded([row(3, noise=1e-4), row(4, noise=1e-4)], ages=False)


def test_log_probabilities_that_are_all_zero_are_no_agreement() -> None:
    fresh = row(4, noise=0.0)
    zeros = Row(fresh.trainer, np.zeros_like(fresh.rollout), fresh.mask, 10, 0, "h", fresh.versions)
    with pytest.raises(FidelityError, match="correlate at nan"):
        guarded([zeros])


def test_of_all_tokens_enough_must_be_left_of_their_weights() -> None:
    with pytest.raises(FidelityError, match=r"effective sample size is 0\.0\d+ of the loss tokens"):
        guarded([row(1, noise=6.0)])
    guarded([row(1, noise=6.0)], "guard.min_effective_share=0")


class Queue:
    """verl's queue, as one dictionary of fields by key."""

    def __init__(self) -> None:
        self.rows: dict[str, dict[str, Any]] = {}

    def kv_batch_put(self, keys: list[str], partition_id: str, fields: Any, tags: Any = None) -> None:
        names = list(fields.keys())
        for number, key in enumerate(keys):
            values = {name: fields[name].unbind()[number] for name in names}
            self.rows.setdefault(key, {}).update(values)

    def kv_batch_get(self, keys: list[str], partition_id: str, select_fields: list[str]) -> dict[str, Any]:
        columns = {name: [self.rows[key][name] for key in keys] for name in select_fields}
        return {
            name: torch.nested.as_nested_tensor(rows, layout=torch.jagged) if torch.is_tensor(rows[0]) else rows
            for name, rows in columns.items()
        }

    def kv_clear(self, keys: list[str], partition_id: str) -> None:
        for key in keys:
            del self.rows[key]


@pytest.fixture
def queue(monkeypatch: pytest.MonkeyPatch) -> Queue:
    queue = Queue()
    for name in ("kv_batch_put", "kv_batch_get", "kv_clear"):
        monkeypatch.setattr(tq, name, getattr(queue, name))
    return queue


def test_a_steps_alignment_is_of_what_verls_queue_holds(queue: Queue) -> None:
    extra = {"harness": "h", "version_runs": [(3, 1), (4, 1)]}
    queue.rows["g_0_1"] = {
        "old_log_probs": torch.tensor([-1.0, 0.0, -2.0]),
        "rollout_log_probs": torch.tensor([-1.5, 0.0, -2.0]),
        "response_mask": torch.tensor([1, 0, 1]),
        "extra_fields": extra,
    }
    batch = KVBatchMeta(partition_id="train", keys=["g_0_1"], tags=[{"prompt_len": 7}])
    found = trainer()._align(batch)
    assert {lag: values["tokens"] for lag, values in found["by_lag"].items()} == {"0": 1, "1": 1}
    assert found["by_lag"]["0"]["k1"] == 0.0
    queue.rows["g_0_1"]["old_log_probs"][0] = math.nan
    with pytest.raises(FidelityError, match=r"step 5: 1 of 2 loss tokens .* not finite; the step is not trained"):
        trainer()._align(batch)


@pytest.mark.parametrize("bypass", [False, True])
def test_where_one_side_is_taken_for_the_other_nothing_is_compared(
    bypass: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = trainer(f"algorithm.rollout_correction.bypass_mode={str(bypass).lower()}")
    monkeypatch.setattr("verl.trainer.ppo.v1.trainer_base.PPOTrainer._compute_old_log_prob", lambda self, b, m: b)
    monkeypatch.setattr(made, "_align", lambda batch: step_alignment([row(4, noise=0.0)], version=4))
    made._compute_old_log_prob(KVBatchMeta(partition_id="train", keys=[], tags=[]), {})
    assert (made._alignment is None) == bypass


@pytest.mark.parametrize(
    ("account", "override", "learns"),
    [
        ({"groups": 3, "small_groups": 1, "zero_variance_groups": 1}, "trainer.critic_warmup=0", True),
        ({"groups": 3, "small_groups": 1, "zero_variance_groups": 2}, "trainer.critic_warmup=0", False),
        ({"groups": 3, "small_groups": 1, "zero_variance_groups": 1}, "trainer.critic_warmup=6", False),
    ],
)
def test_weights_have_to_change_only_where_something_was_learnt(
    account: dict[str, int], override: str, learns: bool
) -> None:
    made = trainer(override)
    made._account = StepAccount(5, "train", **account)  # type: ignore[arg-type]
    assert made._learnt_something() == learns


def test_a_steps_line_is_json_and_says_null_where_there_is_nothing_to_say() -> None:
    account = StepAccount(5, "train", submitted=4, trained=4, outcomes={"solved": 4}, solve_rate=1.0)
    metrics = {"actor/lr": 0.1, "canary/difference": 1e-6, "canary/arrived": math.nan, "other": 3}
    lone = step_alignment([Row(np.array([-1.0]), np.array([-1.0]), np.ones(1, bool), 3, 0, "h", [(4, 1)])], version=4)
    line = step_line(account, metrics, alignment=lone, heldout=None, seconds=2.0, timing={"step": 1.0})
    read = json.loads(json.dumps(line, allow_nan=False))
    assert read["canary_difference"] == 1e-6
    assert read["canary_arrived"] is None
    assert read["alignment"]["overall"]["pearson"] is None, "of one token"
    assert read["alignment"]["by_harness"]["h"]["tokens"] == 1
    flat = logged(line)
    assert flat["alignment/effective_share"] == flat["alignment/lag_0/effective_share"] == 1.0
    assert "alignment/pearson" not in flat
    without = step_line(account, metrics, alignment=None, heldout=None, seconds=2.0, timing={})
    assert without["alignment"] is None
    assert not any(name.startswith("alignment/") for name in logged(without))


# Routes.


AGREEMENT = [np.array([[2, -1], [1, -1], [2, -1], [-1, -1]], dtype=np.int8)]


def test_routes_are_counted_where_loss_tokens_were_sampled() -> None:
    """Of four positions, the last two tokens carry loss: they were sampled at positions 1 and 2. Layer 1 is dense."""
    found = routes_of_loss_tokens(AGREEMENT, [np.array([True, True])], [2], top_k=2)
    assert found == {"replayed_share": 1.0, "agreement": 0.75, "agreement_by_layer": {"0": 0.75}}
    late = routes_of_loss_tokens(AGREEMENT, [np.array([True])], [4], top_k=2)
    assert late["replayed_share"] == 0.0
    assert math.isnan(late["agreement"])
    assert agreed_share(AGREEMENT, 2) == pytest.approx(5 / 6)
    assert math.isnan(agreed_share([np.full((3, 2), -1)], 2))


def test_of_a_batch_too() -> None:
    ones = np.ones(2, dtype=bool)
    both = Row(np.zeros(2), np.zeros(2), ones, 2, 0, "h", [(4, 2)], routes=AGREEMENT[0])
    none = Row(np.zeros(2), np.zeros(2), ones, 2, 0, "h", [(4, 2)])
    assert step_routes([both, none], top_k=2)["agreement_by_layer"] == {"0": 0.75}


def test_a_recipe_says_whether_it_replays() -> None:
    assert not replays(recipe())
    replaying = compose_recipe(["policy=tiny_moe", "lego.router_replay=R3"])
    wire_router_replay(replaying)
    assert replays(replaying)


def test_what_a_model_routes_is_read_from_its_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    def model(**values: Any) -> Any:
        text = SimpleNamespace(num_hidden_layers=6, **values)
        return SimpleNamespace(hf_config=SimpleNamespace(get_text_config=lambda: text))

    config = SimpleNamespace(actor_rollout_ref=SimpleNamespace(model=None))
    name = "lego_verl.workers.alignment_routes.omega_conf_to_dataclass"
    monkeypatch.setattr(name, lambda _: model(num_experts_per_tok=4))
    assert route_shape(config) == (6, 4)
    monkeypatch.setattr(name, lambda _: model())
    with pytest.raises(ValueError, match="does not say how many experts"):
        route_shape(config)


# The canary's sequences in verl's queue.


class Workers:
    """verl's actor worker group: the log-probability of a token is its id; and what its routers agree with."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self.batches: list[KVBatchMeta] = []

    def compute_log_prob(self, batch: KVBatchMeta) -> None:
        self.batches.append(batch)
        for key in batch.keys:
            row = self._queue.rows[key]
            row["log_probs"] = -torch.cat([row["input_ids"][1:], torch.zeros(1)]).float()
            if "routed_experts" in row:
                row["route_agreement"] = torch.where((row["routed_experts"] >= 0).all(-1), 2, -1).to(torch.int8)


@pytest.mark.parametrize("ranks", [1, 2, 3])
def test_the_actor_scores_the_canary_whatever_its_ranks(queue: Queue, ranks: int) -> None:
    workers = Workers(queue)
    reading, agreement = canary_readings.read_trainer(workers, [[5, 6, 7], [8, 9]], ranks)
    assert reading.logprobs.tolist() == [-6.0, -7.0, -9.0]
    assert math.isnan(agreement)
    (batch,) = workers.batches
    assert len(batch.keys) % ranks == 0
    assert batch.extra_info["temperature"] == 1.0
    assert queue.rows == {}, "nothing of it stays"


def test_and_replays_routes_where_it_is_given_some(queue: Queue) -> None:
    routes = [np.zeros((3, 2, 2), np.uint8), np.full((2, 2, 2), -1, np.int16)]
    reading, agreement = canary_readings.read_trainer(Workers(queue), [[5, 6, 7], [8, 9]], 1, routes)
    assert reading.logprobs.tolist() == [-6.0, -7.0, -9.0]
    assert agreement == 1.0

"""Every fault of a weight sync is seen at the sync that has it, and a whole one is not taken for a fault.

The faults are made where they would be: in what this project's rollout server does with the parameters that it is
sent, of real tiny models. The same canary in a whole run is ``lego_verl/workers/sync_canary.py``.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from canary_models import VOCABULARY, Trainer, make_server, read, sequences

from lego_verl.workers.canary import Canary, Reading, Replayed, WeightSyncError
from lego_verl.workers.canary_readings import generated_reading
from lego_verl.workers.canary_sequences import LENGTH, canary_sequences
from lego_verl.workers.rollout import server as server_module
from lego_verl.workers.rollout.load_parameters import load_parameters
from lego_verl.workers.rollout.server import TransformersServer
from lego_verl.workers.sync_canary import _ROUNDED, _TOLERANCE, task_texts

Parameters = dict[str, torch.Tensor]


def sync(server: TransformersServer, parameters: Parameters, version: int) -> None:
    asyncio.run(server.update_weights(parameters, version))


class Run:
    """A trainer and a server that have synced twice, and a canary that has seen both."""

    def __init__(self, folder: Path, moe: bool, learning_rate: float, *overrides: str, tolerance: float = 1e-4) -> None:
        self.trainer, self.server = Trainer(moe, learning_rate), make_server(folder, moe, *overrides)
        self.canary, self.version, self.sent = Canary(tolerance=tolerance), 0, list[Parameters]()
        self.step(updated=False)
        self.step()

    def step(self, *, updated: bool = True) -> dict[str, float]:
        """An update, its sync, and the canary."""
        if updated:
            self.trainer.update()
        self.sent.append(self.trainer.export())
        sync(self.server, self.sent[-1], self.version)
        self.version += 1
        return self.check(updated=updated)

    def check(self, *, updated: bool = True) -> dict[str, float]:
        return self.canary.check(self.trainer.read(), [read(self.server)], sent=self.version - 1, updated=updated)


@pytest.fixture(params=[False, True], ids=["dense", "moe"])
def moe(request: pytest.FixtureRequest) -> bool:
    return bool(request.param)


@pytest.fixture(params=[1e-3, 1e-5], ids=["large steps", "small steps"])
def run(request: pytest.FixtureRequest, moe: bool, tmp_path: Path) -> Run:
    """Small steps move log-probabilities by less than the tolerance, as one of a large model does."""
    return Run(tmp_path, moe, request.param)


def half(model: torch.nn.Module, parameters: Mapping[str, torch.Tensor]) -> None:
    """The first half of the parameters arrive."""
    state = {name: value.clone() for name, value in model.state_dict().items()}
    load_parameters(model, parameters)
    old = list(state)[len(state) // 2 :]
    model.load_state_dict({name: state[name] for name in old}, strict=False)


def permuted(model: torch.nn.Module, parameters: Mapping[str, torch.Tensor]) -> None:
    """Layer 0 gets what is layer 1's, and the other way round."""
    swapped = {".layers.0.": ".layers.1.", ".layers.1.": ".layers.0."}
    renamed = {}
    for name, value in parameters.items():
        for old, new in swapped.items():
            if old in name:
                name = name.replace(old, new)
                break
        renamed[name] = value
    load_parameters(model, renamed)


def test_whole_syncs_pass(run: Run) -> None:
    for _ in range(3):
        found = run.step()
        assert found["canary/difference"] < 1e-5
        assert found["canary/arrived"] == pytest.approx(1, abs=0.02)
        assert found["canary/change"] > 0
    assert run.check(updated=False)["canary/change"] == 0.0, "a step that had no advantage changes nothing"


def test_one_that_is_skipped_is_caught(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """The server takes the version's number and not its weights."""
    monkeypatch.setattr(server_module, "load_parameters", lambda model, parameters: None)
    with pytest.raises(WeightSyncError, match=r"the weights did not arrive"):
        run.step()


def test_one_that_is_half_done_is_caught(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "load_parameters", half)
    with pytest.raises(
        WeightSyncError, match=r"the weights did not arrive|what arrived is not what was sent|a part of it"
    ):
        run.step()


def test_one_that_is_permuted_between_two_layers_is_caught(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_module, "load_parameters", permuted)
    with pytest.raises(WeightSyncError, match=r"rollout server 0 and trainer differ by .*: the weights did not arrive"):
        run.step()


def test_one_of_an_older_version_is_caught_by_its_number(run: Run) -> None:
    run.trainer.update()
    run.version += 1
    sync(run.server, run.sent[-1], run.version - 2)
    with pytest.raises(WeightSyncError, match=r"says that it holds version 1, and 2 was sent"):
        run.check()


@pytest.mark.parametrize("older", [1, 2])
def test_and_by_its_weights_under_a_number_that_is_not_theirs(run: Run, older: int) -> None:
    run.trainer.update()
    run.version += 1
    sync(run.server, run.sent[-older], run.version - 1)
    with pytest.raises(WeightSyncError, match=r"did not arrive|what arrived is not what was sent"):
        run.check()


@pytest.mark.parametrize("part", ["embed_tokens", "layers.1.mlp", "layers.0.self_attn", "lm_head"])
def test_a_part_that_stays_behind_is_caught(run: Run, part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def without(model: torch.nn.Module, parameters: Mapping[str, torch.Tensor]) -> None:
        state = {name: value.clone() for name, value in model.state_dict().items()}
        load_parameters(model, parameters)
        stale = {name: value for name, value in state.items() if part in name}
        assert stale
        model.load_state_dict(stale, strict=False)

    monkeypatch.setattr(server_module, "load_parameters", without)
    with pytest.raises(WeightSyncError):
        run.step()


def test_a_rollout_in_16_bits_passes_and_its_faults_do_not(
    moe: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its log-probabilities differ from the trainer's by far more than the tolerance of float32."""
    run = Run(tmp_path, moe, 1e-3, "rollout.dtype=bfloat16", tolerance=_ROUNDED)
    found = [run.step() for _ in range(4)]
    assert min(each["canary/difference"] for each in found) > _TOLERANCE["float32"]
    assert all(abs(each["canary/arrived"] - 1) < 0.5 for each in found)
    monkeypatch.setattr(server_module, "load_parameters", lambda model, parameters: None)
    with pytest.raises(WeightSyncError, match="the weights did not arrive"):
        run.step()


def test_in_16_bits_a_move_that_is_smaller_than_the_engines_difference_shows_by_its_direction(tmp_path: Path) -> None:
    run = Run(tmp_path, False, 3e-4, "rollout.dtype=bfloat16", tolerance=_ROUNDED)
    found = run.step()
    assert found["canary/change"] < 4 * found["canary/difference"]
    run.trainer.update()
    run.version += 1
    sync(run.server, run.sent[-2], run.version - 1)
    with pytest.raises(WeightSyncError, match=r"made -\d\.\d+ of the trainer's move"):
        run.check()


def test_an_update_that_moved_nothing_is_told(run: Run) -> None:
    sync(run.server, run.sent[-1], run.version - 1)
    with pytest.raises(WeightSyncError, match="nothing was learnt"):
        run.check(updated=True)


# What the canary makes of readings, without models.


def reading(seed: int = 0, **more: Any) -> Reading:
    values = -np.random.default_rng(seed).random(50, dtype=np.float32)
    return Reading(values, **more)


def test_every_server_is_compared() -> None:
    good, other = reading(version=1), reading(1, version=1)
    with pytest.raises(WeightSyncError, match="rollout server 1 and trainer differ"):
        Canary(tolerance=1e-3).check(reading(), [good, other], sent=1, updated=False)


def test_a_value_that_is_no_number_is_a_fault() -> None:
    bad = replace(reading(version=1), logprobs=np.full(50, np.nan, np.float32))
    with pytest.raises(WeightSyncError, match="differ by nan"):
        Canary(tolerance=1e-3).check(reading(), [bad], sent=1, updated=False)


def routes(seed: int = 0, changed: int = 0) -> Any:
    """50 positions, 4 layers, 2 of 8 experts; the first ``changed`` positions go to others."""
    order = np.random.default_rng(seed).random((50, 4, 8)).argsort(-1)[..., :2].astype(np.uint8)
    order[:changed] = (order[:changed] + 4) % 8
    return order


def test_servers_that_send_tokens_elsewhere_are_told_apart() -> None:
    canary = Canary(tolerance=1e-3)
    one = reading(version=1, routes=routes())
    swapped = replace(one, routes=routes()[..., ::-1])
    found = canary.check(reading(), [one, swapped], sent=1, updated=False)
    assert math.isnan(found["canary/routes_changed"]), "the order of a token's experts says nothing"
    other = replace(one, routes=routes(changed=5))
    with pytest.raises(WeightSyncError, match=r"rollout servers 0 and 1 send .* the same experts in 9\d\.\d%"):
        canary.check(reading(), [one, other], sent=1, updated=False)
    changed = canary.check(reading(), [replace(one, routes=routes(changed=5))], sent=1, updated=False)
    assert 0.05 < changed["canary/routes_changed"] <= 0.1


def test_replayed_routes_must_give_the_servers_values_and_be_the_trainers_own() -> None:
    one = reading(version=1, routes=routes())
    same = Replayed(one.logprobs, agreement=0.99)

    def check(replayed: Replayed) -> dict[str, float]:
        return Canary(tolerance=1e-3).check(reading(), [one], sent=1, updated=False, replayed=replayed)

    assert check(same)["canary/route_agreement"] == 0.99
    with pytest.raises(WeightSyncError, match="what is replayed is not what was recorded"):
        check(replace(same, logprobs=one.logprobs + 0.1))
    with pytest.raises(WeightSyncError, match=r"the experts of rollout server 0 in 80\.0%"):
        check(replace(same, agreement=0.8))


def test_other_engines_are_read_by_a_generation_of_one_token() -> None:
    """As verl's vLLM server answers: a value for every token but the first, and a last one that stands for none."""

    def output(values: list[float], version: int) -> Any:
        extra = {"global_steps": version, "prompt_logprobs": [[value] for value in [*values, 0.0]]}
        return SimpleNamespace(extra_fields=extra, routed_experts=None)

    found = generated_reading([output([-1.0, -2.0], 3), output([-3.0], 3)], [[5, 6, 7], [8, 9]])
    assert found.logprobs.tolist() == [-1.0, -2.0, -3.0]
    assert (found.version, found.routes) == (3, None)
    with pytest.raises(WeightSyncError, match="several weight versions"):
        generated_reading([output([-1.0], 3), output([-3.0], 4)], [[5, 6], [8, 9]])


def test_sequences_are_of_the_tasks_own_kind_and_of_chance_and_always_the_same() -> None:
    found = sequences()
    assert sequences.__wrapped__() == found
    assert len(found) == 7
    assert all(2 <= len(ids) <= LENGTH and max(ids) < VOCABULARY for ids in found)
    drawn = {token for ids in found[3:] for token in ids}
    assert len(drawn) > 150, "rows of the embedding that no text reaches"
    other = canary_sequences(lambda text: [1] * len(text), ["", "ab"], vocabulary=10, seed=4)
    assert [len(ids) for ids in other] == [64, 2, 64, 64, 64, 64]


def test_texts_are_the_first_tasks_instructions() -> None:
    rows = [{"raw_prompt": [{"role": "user", "content": f"mend {number}"}]} for number in range(3)]
    assert task_texts(rows, 2) == ["mend 0", "mend 1"]
    assert task_texts(rows[:1], 2) == ["mend 0"]

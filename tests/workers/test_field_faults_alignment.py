"""Faults that users of such systems met, by the number under which they are listed: those of the policy that sampled
and the policy that is trained.

Here they are met by this project's own rollout server with real tiny models, between a weight update and the batch
that is trained. On other floors, with the same numbers:

====  ==================================================  =======================================================
   8  an aborted call is taken up again                   proxy/test_field_faults.py
   9  a trial of too many versions is stale               proxy/test_field_faults.py
  11  routes over turns and versions, in the session      proxy/test_field_faults.py
  12  rows that no token chose are noticed                trial/test_field_faults_trials.py
  13  half of a router replay is refused                  trial/test_field_faults_trials.py, recipes/
  14  a sync that did not arrive, in each of four ways    workers/test_canary.py
====  ==================================================  =======================================================
"""

from __future__ import annotations

import asyncio
import copy
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from canary_models import Trainer, make_server, sequences
from verl.trainer.ppo.padding_utils import build_padding_routed_experts
from verl.workers.rollout.llm_server import LLMServerClient

from lego_verl.capture.bytelevel import byte_renderer
from lego_verl.capture.message import Message, Request
from lego_verl.capture.parser import HermesParser
from lego_verl.capture.segment import TrainingSegment
from lego_verl.capture.session import SessionCapture
from lego_verl.capture.versions import version_span
from lego_verl.compose import compose_recipe
from lego_verl.config import ConfigError, typed
from lego_verl.consistency import check_consistency
from lego_verl.policies.policy import Sampling
from lego_verl.proxy.generation import Generation
from lego_verl.trial.outcome import Outcome
from lego_verl.trial.record import TrialRecord
from lego_verl.workers.agent_loop import outputs
from lego_verl.workers.alignment_batch import Row, lags, step_alignment
from lego_verl.workers.canary import Canary, WeightSyncError
from lego_verl.workers.canary_readings import own_reading
from lego_verl.workers.policy import VerlPolicy
from lego_verl.workers.rollout.server import TransformersServer
from lego_verl.workers.router_replay.rows import recorded_rows

TOKENS = 12


class Remote:
    """An object whose methods are called as those of a Ray actor."""

    def __init__(self, target: Any) -> None:
        self._target = target

    def __getattr__(self, name: str) -> Any:
        return SimpleNamespace(remote=getattr(self._target, name))


class Balancer:
    """Every request goes to the one server."""

    def __init__(self, server: TransformersServer) -> None:
        self._server = server

    async def require_acquire_fields(self) -> list[str]:
        return []

    async def require_release_fields(self) -> list[str]:
        return []

    async def acquire_server(self, request_id: str) -> tuple[str, Any]:
        return "server", Remote(self._server)

    def release_server(self, server_id: str) -> None: ...


def policy_on(server: TransformersServer) -> VerlPolicy:
    client = LLMServerClient(compose_recipe([]), Remote(Balancer(server)))
    return VerlPolicy(client, model="tiny", eos_ids=frozenset({1}), seconds=60)


async def update(server: TransformersServer, trainer: Trainer, version: int) -> None:
    """As verl's colocated trainers do it: nothing is generated meanwhile, and then it goes on."""
    await server.abort_all_requests()
    await server.sleep()
    trainer.update()
    await server.update_weights(trainer.export(), version)
    await server.resume_generation()


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(30):
        while not happened():
            await asyncio.sleep(0)


async def started(moe: bool, folder: Path) -> tuple[TransformersServer, Trainer]:
    """Both with version 4."""
    # Large steps: what older weights say and route is then told from what newer ones do.
    server, trainer = make_server(folder, moe), Trainer(moe, learning_rate=0.02)
    await server.update_weights(trainer.export(), 4)
    return server, trainer


class Asked:
    """A trial that asks the policy turn by turn, with this project's proxy and capture between."""

    def __init__(self, server: TransformersServer, number: int = 0) -> None:
        self.capture = SessionCapture(byte_renderer(), HermesParser())
        self._generation = Generation(f"trial-{number}", policy_on(server))
        self._history: list[Message] = [Message("system", f"trial {number}")]
        self._sampling = Sampling(temperature=1.0, extra={"ignore_eos": True, "seed": number})

    async def turn(self, text: str) -> None:
        self._history.append(Message("user", text))
        prepared = self.capture.prepare(Request(tuple(self._history)))
        sample = await self._generation.sample(self.capture, prepared, TOKENS, self._sampling)
        self._history.append(self.capture.commit(prepared, sample, seconds=0.0).message)

    @property
    def segment(self) -> TrainingSegment:
        (segment,) = self.capture.segments()
        return segment


def running(server: TransformersServer, count: int, tokens: int) -> Callable[[], bool]:
    """Whether so many generations are in flight, each with some of its tokens."""
    return lambda: sum(len(each.ids) >= tokens for each in server._scheduler._running) == count


async def interrupted_turn(asked: Asked, server: TransformersServer, trainer: Trainer, version: int) -> None:
    """A turn in the middle of which the weights change."""
    turn = asyncio.ensure_future(asked.turn("and now?"))
    await until(running(server, 1, 3))
    await update(server, trainer, version)
    await turn


@torch.no_grad()
def scored(model: Any, segment: TrainingSegment) -> np.ndarray:
    """(response,) log-probabilities by a plain pass."""
    ids = torch.from_numpy(segment.ids.astype(np.int64))
    logprobs = model(input_ids=ids[None]).logits[0, :-1].float().log_softmax(-1)
    found: np.ndarray = logprobs.gather(-1, ids[1:, None])[len(segment.prompt_ids) - 1 :, 0].numpy()
    return found


def row_of(segment: TrainingSegment) -> Row:
    (output,) = outputs(TrialRecord("t", "task", Outcome.SOLVED, harness="h", reward=1.0), [segment], routed=False)
    runs = output.extra_fields["version_runs"]
    mask = segment.response_mask.astype(bool)
    return Row(segment.logprobs, segment.logprobs, mask, len(segment.prompt_ids), 0, "h", runs)


async def test_fault_08_a_sync_loses_none_of_those_in_flight_and_none_is_cut_short(tmp_path: Path) -> None:
    server, trainer = await started(False, tmp_path)
    asked = [Asked(server, number) for number in range(6)]
    turns = asyncio.gather(*(each.turn("go on") for each in asked))
    await until(running(server, 6, 3))
    before = copy.deepcopy(trainer.model)
    await update(server, trainer, 5)
    await turns
    for each in asked:
        segment = each.segment
        assert each.capture.calls[0].sample.finish == "length", "an aborted turn is no reply"
        assert len(segment.logprobs) == len(segment.versions) == int(segment.response_mask.sum()) == TOKENS
        old = segment.versions == 4
        assert 3 <= old.sum() < TOKENS
        assert (segment.versions[~old] == 5).all()
        # Each token in the context that it was sampled in, by the weights that its version names.
        np.testing.assert_allclose(segment.logprobs[old], scored(before, segment)[old], atol=1e-4)
        np.testing.assert_allclose(segment.logprobs[~old], scored(trainer.model, segment)[~old], atol=1e-4)
        assert np.abs(scored(before, segment) - scored(trainer.model, segment)).max() > 0.01


async def test_fault_09_every_token_of_a_trial_over_three_versions_has_its_own(tmp_path: Path) -> None:
    server, trainer = await started(False, tmp_path)
    asked = Asked(server)
    await asked.turn("begin")
    await update(server, trainer, 5)
    await interrupted_turn(asked, server, trainer, 6)
    row = row_of(asked.segment)
    (four, old), (five, middle), (six, new) = row.versions
    assert (four, five, six) == (4, 5, 6)
    assert (old, middle + new) == (TOKENS, TOKENS)
    assert min(middle, new) > 0
    assert lags(row, version=7).tolist() == [3] * old + [2] * middle + [1] * new
    by_lag = step_alignment([row], version=7)["by_lag"]
    assert {lag: found["tokens"] for lag, found in by_lag.items()} == {"1": new, "2": middle, "3": old}
    span = version_span([asked.segment])
    assert span is not None
    assert span.too_wide(2) == ""
    assert "weights 4 to 6 sampled it" in span.too_wide(1)


async def test_fault_11_routes_of_two_turns_and_two_versions_are_those_of_each_token(tmp_path: Path) -> None:
    server, trainer = await started(True, tmp_path)
    asked = Asked(server)
    await asked.turn("begin")
    first = asked.segment.routes
    assert first is not None
    await interrupted_turn(asked, server, trainer, 5)
    segment = asked.segment
    assert segment.routes is not None
    assert segment.routes.shape == (len(segment.ids) - 1, 2, 2), "a row for each token that went through the model"
    np.testing.assert_array_equal(segment.routes[: len(first)], first)
    answer = await server.canary([segment.ids.tolist()])
    now = answer["routes"][0][:-1]
    assert (now[: len(first)] != first).any(), "the new weights would route the first turn otherwise"
    resumed = int((segment.versions == 5).argmax()) + len(segment.prompt_ids) - 1
    np.testing.assert_array_equal(segment.routes[resumed:], now[resumed:])
    (output,) = outputs(TrialRecord("t", "task", Outcome.SOLVED, reward=1.0), [segment], routed=True)
    routes = output.as_dict()["routed_experts"]
    assert len(routes) == len(segment.ids), "and for verl one more, of the token that did not"


async def test_fault_12_rows_of_no_token_are_marked_and_replay_no_expert(tmp_path: Path) -> None:
    server, _ = await started(True, tmp_path)
    asked = Asked(server)
    await asked.turn("begin")
    (output,) = outputs(TrialRecord("t", "task", Outcome.SOLVED, reward=1.0), [asked.segment], routed=True)
    routes = output.as_dict()["routed_experts"]
    assert recorded_rows(routes, experts=8).tolist() == [[True, True]] * (len(routes) - 1) + [[False, False]]
    padding = build_padding_routed_experts(routes, 128)
    assert padding is not None
    assert not recorded_rows(padding, experts=8).any(), "verl's rows of padding name expert 0 for every place"


@pytest.mark.parametrize(
    "overrides",
    [
        ["lego.router_replay=R3"],
        ["actor_rollout_ref.rollout.enable_rollout_routing_replay=true", "policy.family=moe"],
    ],
    ids=["of a dense model", "recorded and not replayed"],
)
def test_fault_13_half_of_a_router_replay_is_refused(overrides: list[str]) -> None:
    config = compose_recipe(overrides)
    with pytest.raises(ConfigError, match="rout"):
        check_consistency(config, typed(config))


async def test_fault_14_weights_that_never_reached_the_engine_are_noticed_at_the_first_sync(tmp_path: Path) -> None:
    """The version's number arrives, as verl sends it by itself to some engines."""
    server, trainer = await started(False, tmp_path)
    canary = Canary(tolerance=1e-4)

    async def check(sent: int) -> None:
        canary.check(trainer.read(), [own_reading(await server.canary(sequences()))], sent=sent, updated=sent > 4)

    await check(4)
    await update(server, trainer, 5)
    await check(5)
    trainer.update()
    await server.set_global_steps(6)
    with pytest.raises(WeightSyncError, match="weight sync 6, rollout server 0 and trainer differ by"):
        await check(6)

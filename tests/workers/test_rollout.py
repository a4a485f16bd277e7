"""The rollout engine: exact log-probabilities and routes, whatever is batched and cached."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="the extra cpu is not installed")
transformers = pytest.importorskip("transformers", reason="the extra cpu is not installed")

from lego_verl.workers.rollout.batched_model import Advance, BatchedModel  # noqa: E402
from lego_verl.workers.rollout.kv_cache import CachedSequence, PrefixCache  # noqa: E402
from lego_verl.workers.rollout.load_parameters import load_parameters  # noqa: E402
from lego_verl.workers.rollout.sampling import SamplingParams, sample  # noqa: E402
from lego_verl.workers.rollout.scheduler import Scheduler  # noqa: E402

SIZES = {
    "vocab_size": 300,
    "hidden_size": 64,
    "intermediate_size": 128,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 1,
    "head_dim": 32,
    "max_position_embeddings": 2048,
    "tie_word_embeddings": False,
    "initializer_range": 0.2,
}


def make(moe: bool) -> Any:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    if moe:
        config = transformers.Qwen3MoeConfig(
            **SIZES, moe_intermediate_size=64, num_experts=8, num_experts_per_tok=2, decoder_sparse_step=1
        )
        return transformers.Qwen3MoeForCausalLM(config).eval()
    return transformers.Qwen3ForCausalLM(transformers.Qwen3Config(**SIZES)).eval()


@pytest.mark.parametrize("moe", [False, True])
async def test_batched_and_cached_generation_is_what_the_model_says(moe: bool) -> None:
    """Twelve sessions of three turns at once: each log-probability and route equals a plain forward pass."""
    model = BatchedModel(make(moe), record_routes=moe)
    scheduler = Scheduler(model, PrefixCache(20_000), eos=frozenset([5]), max_batch=5)
    random = np.random.default_rng(0)
    shared = random.integers(6, 300, 200)
    cached = []

    async def session(number: int) -> None:
        prompt = np.concatenate([shared[: 20 + number * 7], random.integers(6, 300, 9)])
        for _ in range(3):
            output = await scheduler.generate(prompt, SamplingParams(max_tokens=6))
            whole = np.concatenate([prompt, np.array(output.ids)])
            expected = model.score(whole)[-len(output.ids) :].numpy()
            np.testing.assert_allclose(output.logprobs, expected, atol=5e-5)
            if moe:
                (plain, _), *_ = model.forward([Advance(None, whole[:-1])])
                assert output.routes is not None
                assert output.routes.shape == (len(whole) - 1, 2, 2)
                np.testing.assert_array_equal(output.routes, plain.routes.numpy())
            cached.append(output.cached_tokens)
            prompt = np.concatenate([whole, random.integers(6, 300, 11)])

    await asyncio.gather(*(session(number) for number in range(12)))
    assert sum(length > 20 for length in cached) >= 24, "later turns must reuse the cache"


async def test_a_failing_model_fails_its_requests_and_the_next_one_works() -> None:
    model = BatchedModel(make(False))
    scheduler = Scheduler(model, PrefixCache(1000), eos=frozenset(), max_batch=4)
    with pytest.raises(IndexError):
        await asyncio.wait_for(scheduler.generate(np.array([10_000]), SamplingParams()), 10)
    output = await asyncio.wait_for(scheduler.generate(np.array([7, 8]), SamplingParams()), 10)
    assert len(output.ids) == 1


async def test_abort_ends_what_is_running_with_what_it_has() -> None:
    scheduler = Scheduler(BatchedModel(make(False)), PrefixCache(1000), eos=frozenset(), max_batch=4)
    task = asyncio.create_task(scheduler.generate(np.array([7, 8]), SamplingParams(max_tokens=2000)))
    await asyncio.sleep(0.2)
    assert scheduler.abort() == 1
    output = await asyncio.wait_for(task, 5)
    assert output.finish == "aborted"
    assert 0 < len(output.ids) < 2000
    assert len(output.ids) == len(output.logprobs)


def test_the_longest_stored_prefix_is_found_and_the_last_token_is_left_to_compute() -> None:
    def sequence(*ids: int) -> CachedSequence:
        zeros = torch.zeros(1, len(ids), 4)
        return CachedSequence(np.array(ids), [(zeros, zeros)], None)

    cache = PrefixCache(max_tokens=10)
    cache.store(sequence(1, 2, 3))
    cache.store(sequence(1, 2, 9, 9))
    found = cache.longest_prefix(np.array([1, 2, 3]))
    assert found is not None
    assert found.ids.tolist() == [1, 2]
    assert found.layers[0][0].shape == (1, 2, 4)
    assert cache.longest_prefix(np.array([4, 5])) is None
    cache.store(sequence(1, 2, 3, 4, 5, 6, 7))  # takes the place of its prefix; the other must go
    remaining = cache.longest_prefix(np.array([1, 2, 9, 9, 9]))
    assert remaining is not None
    assert len(remaining.ids) == 2


@pytest.mark.parametrize("moe", [False, True])
def test_a_sync_puts_every_parameter_in_place_or_none(moe: bool) -> None:
    model = make(moe)
    exported = _as_verl_exports({name: torch.randn_like(value) for name, value in model.state_dict().items()})
    load_parameters(model, exported)
    again = _as_verl_exports(dict(model.state_dict()))
    assert all(torch.equal(again[name], exported[name]) for name in exported)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for wrong in ({**exported, "nobody.weight": torch.zeros(1)}, dict(list(exported.items())[1:])):
        with pytest.raises(ValueError, match="does not fit the rollout model"):
            load_parameters(model, wrong)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())


def _as_verl_exports(state: dict[str, Any]) -> dict[str, Any]:
    """One tensor an expert and projection, as the FSDP engine names them."""
    exported = {}
    for name, value in state.items():
        if name.endswith("experts.gate_up_proj"):
            for expert, tensor in enumerate(value):
                gate, up = tensor.chunk(2)
                exported[name.replace("gate_up_proj", f"{expert}.gate_proj.weight")] = gate
                exported[name.replace("gate_up_proj", f"{expert}.up_proj.weight")] = up
        elif name.endswith("experts.down_proj"):
            for expert, tensor in enumerate(value):
                exported[name.replace("down_proj", f"{expert}.down_proj.weight")] = tensor
        else:
            exported[name] = value
    return exported


def test_routes_of_a_dense_model_are_refused() -> None:
    with pytest.raises(ValueError, match="dense model"):
        BatchedModel(make(False), record_routes=True)


def test_the_logprob_is_that_of_the_whole_distribution() -> None:
    logits = torch.tensor([2.0, 1.0, 0.0, -1.0])
    token, logprob = sample(logits, SamplingParams(top_k=1), None)
    assert token == 0
    assert logprob == pytest.approx(float(logits.log_softmax(-1)[0]))
    token, logprob = sample(logits, SamplingParams(temperature=0.5, top_p=0.5), None)
    assert token == 0
    assert logprob == pytest.approx(float((logits / 0.5).log_softmax(-1)[0]))
    assert sample(logits, SamplingParams(temperature=0.0), None)[0] == 0


def test_what_would_change_the_distribution_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="repetition_penalty"):
        SamplingParams.from_verl({"repetition_penalty": 1.2}, default_max_tokens=3)

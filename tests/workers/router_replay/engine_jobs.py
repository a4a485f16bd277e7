"""What the engine is asked: to score and to train on what a rollout model generated with perturbed routes."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import torch
from tiny_mixtures import EXPERTS, LAYERS, TOP_K, tiny

from lego_verl.workers.rollout.batched_model import BatchedModel
from lego_verl.workers.rollout.kv_cache import PrefixCache
from lego_verl.workers.rollout.sampling import SamplingParams
from lego_verl.workers.rollout.scheduler import Scheduler

NOISE = 1.0
LAYOUTS = {
    f"{'packed' if packed else 'padded'}{'-checkpointed' if again else ''}": {"packed": packed, "checkpointing": again}
    for packed in (True, False)
    for again in (False, True)
}


def generate(model: Any) -> dict[str, Any]:
    """Six sessions of two turns, batched and cached, as the rollout server would with routing noise."""
    recorder = BatchedModel(model, record_routes=True, routing_noise=NOISE, routing_seed=3)
    scheduler = Scheduler(recorder, PrefixCache(10_000), eos=frozenset([1]), max_batch=4)
    random = np.random.default_rng(0)
    found: dict[str, Any] = {"sequences": [], "routes": [], "sampled": []}

    async def session(number: int) -> None:
        prompt, sampled = random.integers(2, 97, 4 + 3 * number), {}
        for turn in range(2):
            params = SamplingParams(max_tokens=5, ignore_eos=True, seed=10 * number + turn)
            output = await scheduler.generate(prompt, params)
            sampled |= {len(prompt) + i: value for i, value in enumerate(output.logprobs)}
            prompt = np.concatenate([prompt, np.array(output.ids), random.integers(2, 97, 3)])
        ids = torch.from_numpy(prompt[:-3])
        assert output.routes is not None
        assert output.routes.dtype == np.uint8, "one byte an index"
        routes = torch.full((len(ids), LAYERS, TOP_K), 255, dtype=torch.uint8)
        routes[: len(output.routes)] = torch.from_numpy(output.routes)
        found["sequences"].append(ids)
        found["routes"].append(routes)
        found["sampled"].append(sampled)

    async def all_sessions() -> None:
        await asyncio.gather(*(session(number) for number in range(6)))

    asyncio.run(all_sessions())
    return found


def signed(routes: torch.Tensor) -> torch.Tensor:
    wide = routes.to(torch.int16)
    return torch.where(wide == 255, -1, wide)


def engine_jobs(generated: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """For ``engine_host.py``, by name: ``family/layout``, ``family/two ranks``, ``family/native``, and others that are
    named for what is odd about them, of Qwen3-MoE."""
    jobs: dict[str, dict[str, Any]] = {}
    for family, found in generated.items():
        common = {key: found[key] for key in ("path", "sequences", "routes")}
        if family == "gpt_oss":
            # Without flash-attention transformers lets its packed sequences see each other: one a micro-batch.
            sizes = {"micro_batch_size_per_gpu": 1, "infer_micro_batch_size_per_gpu": 1}
            common["engine"] = {"use_dynamic_bsz": False, **sizes}
        for layout, options in LAYOUTS.items():
            jobs[f"{family}/{layout}"] = {**common, **options}
        jobs[f"{family}/two ranks"] = {**common, "world": 2, "checkpointing": True}
        native = {"meta": {"enable_routing_replay": False}, "what": ("infer", "gradients", "parameters")}
        jobs[f"{family}/native"] = {**common, **native, "routes": None}
    some = {key: generated["qwen3_moe"][key] for key in ("path", "sequences", "routes")}
    fixed = {"use_dynamic_bsz": False, "pad_to_length": True, "pad_to_length_bucket": 32}
    jobs["fixed"] = {**some, "engine": fixed, "checkpointing": True}
    jobs["wide"] = {**some, "routes": [signed(rows) for rows in some["routes"]]}
    gaps = [rows.clone() for rows in some["routes"]]
    for rows in gaps:
        rows[3:9] = 0  # as verl pads
    jobs["gaps"] = {**some, "routes": gaps}
    numbered = [torch.stack([ids, ids + 1], -1)[:, None].repeat(1, LAYERS, 1) % EXPERTS for ids in some["sequences"]]
    ulysses = {"ulysses_sequence_parallel_size": 2}
    jobs["ulysses"] = {**some, "routes": numbered, "engine": ulysses, "world": 2, "what": ("inputs",)}
    jobs["ulysses pass"] = {**some, "engine": ulysses, "world": 2, "checkpointing": True}
    jobs["ulysses pass"]["model"] = {"override_config": {"attn_implementation": "gathering"}}
    jobs["no routes"] = {**some, "routes": None}
    jobs["short"] = {**some, "routes": [rows[:-1] for rows in some["routes"]]}
    jobs["layers"] = {**some, "routes": [rows[:, :2] for rows in some["routes"]]}
    jobs["experts"] = {**some, "routes": [torch.where(rows == 7, 9, rows) for rows in some["routes"]]}
    jobs["R2"] = {**some, "engine": {"mode": "R2"}}
    jobs["offload"] = {**some, "checkpointing": True, "model": {"enable_activation_offload": True}}
    return jobs


def expected(found: dict[str, Any]) -> tuple[Any, list[torch.Tensor]]:
    """The reference model, and the routes in signed form."""
    return tiny(found["family"]), [signed(rows) for rows in found["routes"]]


def differences(found: dict[str, Any], result: dict[str, Any]) -> list[float]:
    """Of each sampled token: between the engine that sampled it and the trainer."""
    assert not isinstance(result, str), result
    pairs = zip(found["sampled"], result["logprobs"], strict=True)
    return [abs(value - float(row[position - 1])) for sampled, row in pairs for position, value in sampled.items()]

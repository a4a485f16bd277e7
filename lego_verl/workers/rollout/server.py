"""The Ray actor that verl's ``LLMServerClient`` talks to."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import numpy as np
import ray
import torch
from transformers import AutoModelForCausalLM
from verl.workers.config import HFModelConfig, RolloutConfig
from verl.workers.rollout.replica import TokenOutput

from lego_verl.workers.rollout.batched_model import BatchedModel
from lego_verl.workers.rollout.kv_cache import PrefixCache
from lego_verl.workers.rollout.load_parameters import load_parameters
from lego_verl.workers.rollout.sampling import SamplingParams
from lego_verl.workers.rollout.scheduler import Scheduler

_DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}


@dataclass(frozen=True)
class _Options:
    """``rollout.engine_kwargs.transformers``: see ``RouteRecorder``."""

    routing_noise: float = 0.0
    routing_seed: int = 0


class TransformersServer:
    """Token ids in, token ids with log-probabilities and expert routes out."""

    def __init__(self, config: RolloutConfig, model_config: HFModelConfig) -> None:
        torch.set_num_threads(1)
        self._config = config
        if config.dtype not in _DTYPES:
            raise ValueError(f"rollout.dtype={config.dtype} is not one of {sorted(_DTYPES)}")
        model = AutoModelForCausalLM.from_pretrained(model_config.local_path, dtype=_DTYPES[config.dtype]).eval()
        # Every parameter comes from the trainer before the first request; nothing here is trained.
        model.requires_grad_(False)
        eos = model.generation_config.eos_token_id
        if eos is None:
            raise ValueError(f"{model_config.local_path}: generation_config.json names no eos_token_id")
        options = _Options(**(config.engine_kwargs.get("transformers") or {}))
        self._model = BatchedModel(
            model,
            record_routes=bool(config.enable_rollout_routing_replay),
            routing_noise=options.routing_noise,
            routing_seed=options.routing_seed,
        )
        self._cache = PrefixCache(max_tokens=config.max_num_batched_tokens * 4)
        self._scheduler = Scheduler(
            self._model,
            self._cache,
            eos=frozenset(eos if isinstance(eos, list) else [eos]),
            max_batch=config.max_num_seqs,
        )
        self._vocabulary = int(model.config.get_text_config(decoder=True).vocab_size)
        self._version: int | None = None
        self._accepting = asyncio.Event()
        self._accepting.set()

    def get_server_address(self) -> str:
        """There is no HTTP port: verl only uses the address as a name."""
        return f"{ray.util.get_node_ip_address()}:0"

    async def generate(
        self, prompt_ids: list[int], sampling_params: dict[str, Any], request_id: str, **_: Any
    ) -> TokenOutput:
        """Generate after ``prompt_ids``.

        ``routed_experts`` has shape (prompt + sampled - 1, layers, top_k): the last sampled token was never
        sent through the model, as in vLLM.

        Raises:
            ValueError: when the prompt leaves no room for a token, or holds an id that is none.
        """
        await self._accepting.wait()
        limit = self._config.max_model_len or self._config.prompt_length + self._config.response_length
        room = limit - len(prompt_ids)
        if room < 1:
            raise ValueError(f"a prompt of {len(prompt_ids)} tokens leaves no room in max_model_len={limit}")
        if not all(0 <= token < self._vocabulary for token in prompt_ids):
            # Refused here: in the model it would fail every request of its batch.
            raise ValueError(f"a prompt holds token ids outside the vocabulary of {self._vocabulary}")
        params = SamplingParams.from_verl(
            {**sampling_params, "max_tokens": min(room, sampling_params.get("max_tokens") or room)},
            default_max_tokens=room,
        )
        version = self._version
        output = await self._scheduler.generate(np.asarray(prompt_ids, dtype=np.int64), params)
        return TokenOutput(
            token_ids=output.ids,
            log_probs=output.logprobs if sampling_params.get("logprobs") else None,
            routed_experts=output.routes,
            stop_reason=output.finish if output.finish == "aborted" else "completed",
            num_preempted=0,
            extra_fields={"global_steps": version, "num_cached_tokens": output.cached_tokens, "finish": output.finish},
        )

    async def canary(self, sequences: list[list[int]]) -> dict[str, Any]:
        """What the canary of a weight sync compares (``lego_verl/workers/canary.py``).

        Returns:
            ``version`` of the weights; for each sequence, ``logprobs`` of every token but the first, and ``routes`` of
            every position (None where they are not recorded).
        """
        scored = [self._model.score_routed(np.asarray(ids, dtype=np.int64)) for ids in sequences]
        routes = [each.numpy() for _, each in scored if each is not None]
        return {
            "version": self._version,
            "logprobs": [logprobs.numpy() for logprobs, _ in scored],
            "routes": routes or None,
        }

    async def update_weights(self, parameters: dict[str, torch.Tensor], version: int | None) -> None:
        """Take new weights. What was being generated ends as ``aborted``: its keys belong to the old ones."""
        self._scheduler.abort()
        load_parameters(self._model.model, parameters)
        self._cache.clear()
        if version is not None:
            self._version = version

    async def set_global_steps(self, version: int) -> None:
        self._version = version

    async def abort_all_requests(self, reject_request: bool = False) -> dict[str, Any]:
        self._accepting.clear()
        return {"aborted_count": self._scheduler.abort(), "request_ids": []}

    async def resume_generation(self) -> None:
        self._accepting.set()

    async def clear_kv_cache(self) -> None:
        self._cache.clear()

    async def wake_up(self, tags: list[str] | None = None) -> None: ...

    async def sleep(self) -> None:
        self._cache.clear()

    async def release_kv_cache(self) -> None:
        self._cache.clear()

    async def resume_kv_cache(self) -> None: ...

    async def start_profile(self, **_: Any) -> None: ...

    async def stop_profile(self) -> None: ...

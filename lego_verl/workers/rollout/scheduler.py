"""Continuous batching: requests join between two forward passes and leave as soon as they are done."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass, field

import numpy as np
import torch
from numpy.typing import NDArray

from lego_verl.workers.rollout.batched_model import Advance, BatchedModel
from lego_verl.workers.rollout.kv_cache import CachedSequence, PrefixCache
from lego_verl.workers.rollout.sampling import SamplingParams, sample


@dataclass
class Generated:
    """Sampled ids, their log-probabilities, and the routes of all tokens that went through the model."""

    ids: list[int]
    logprobs: list[float]
    routes: NDArray[np.uint8] | NDArray[np.int16] | None
    finish: str
    """``stop``, ``length`` or ``aborted``."""
    cached_tokens: int


@dataclass(eq=False)
class _Running:
    prompt: NDArray[np.int64]
    params: SamplingParams
    done: asyncio.Future[Generated]
    generator: torch.Generator | None
    cached_tokens: int = 0
    sequence: CachedSequence | None = None
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)


class Scheduler:
    """Serves requests on one model, in one asyncio task.

    Args:
        eos: ids that end a generation (they are part of it).
        max_batch: sequences in one forward pass.
    """

    def __init__(self, model: BatchedModel, cache: PrefixCache, *, eos: frozenset[int], max_batch: int) -> None:
        self._model, self._cache, self._eos, self._max_batch = model, cache, eos, max_batch
        self._waiting: deque[_Running] = deque()
        self._running: list[_Running] = []
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def generate(self, prompt: NDArray[np.int64], params: SamplingParams) -> Generated:
        """Generate at most ``params.max_tokens`` tokens after ``prompt``."""
        generator = None if params.seed is None else torch.Generator().manual_seed(params.seed)
        request = _Running(prompt, params, asyncio.get_running_loop().create_future(), generator)
        self._waiting.append(request)
        self._wake.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._serve())
        return await request.done

    def abort(self) -> int:
        """End every request with what it has so far, as ``aborted``; return how many there were."""
        requests = [*self._running, *self._waiting]
        self._running.clear()
        self._waiting.clear()
        for request in requests:
            self._finish(request, "aborted")
        return len(requests)

    async def _serve(self) -> None:
        while True:
            if not self._waiting and not self._running:
                self._wake.clear()
                await self._wake.wait()
            # One turn of the loop, so that requests that arrive together start together.
            await asyncio.sleep(0)
            try:
                self._admit()
                self._decode()
            except Exception as error:  # noqa: BLE001
                # Whatever the model raises belongs to the requests in flight, which would else wait for ever.
                for request in [*self._running, *self._waiting]:
                    if not request.done.done():
                        request.done.set_exception(error)
                self._running.clear()
                self._waiting.clear()

    def _admit(self) -> None:
        new: list[_Running] = []
        while self._waiting and len(self._running) + len(new) < self._max_batch:
            new.append(self._waiting.popleft())
        self._running.extend(new)
        if not new:
            return
        rows = []
        for request in new:
            past = self._cache.longest_prefix(request.prompt)
            request.cached_tokens = 0 if past is None else len(past.ids)
            rows.append(Advance(past, request.prompt[request.cached_tokens :]))
        self._advance(new, rows)

    def _decode(self) -> None:
        if self._running:
            rows = [Advance(request.sequence, np.array(request.ids[-1:], dtype=np.int64)) for request in self._running]
            self._advance(list(self._running), rows)

    def _advance(self, requests: list[_Running], rows: list[Advance]) -> None:
        for request, (sequence, logits) in zip(requests, self._model.forward(rows), strict=True):
            token, logprob = sample(logits, request.params, request.generator)
            request.sequence = sequence
            request.ids.append(token)
            request.logprobs.append(logprob)
            if token in self._eos and not request.params.ignore_eos:
                self._leave(request, "stop")
            elif len(request.ids) >= request.params.max_tokens:
                self._leave(request, "length")

    def _leave(self, request: _Running, finish: str) -> None:
        self._running.remove(request)
        assert request.sequence is not None
        sequence = request.sequence
        # Views into the batch would keep the whole batch alive.
        layers = [(keys.clone(), values.clone()) for keys, values in sequence.layers]
        self._cache.store(CachedSequence(sequence.ids, layers, sequence.routes))
        self._finish(request, finish)

    def _finish(self, request: _Running, finish: str) -> None:
        routes = None
        if request.sequence is not None and request.sequence.routes is not None:
            routes = request.sequence.routes.numpy()
        if not request.done.done():
            request.done.set_result(Generated(request.ids, request.logprobs, routes, finish, request.cached_tokens))

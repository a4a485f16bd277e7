"""The experts that a forward pass sent its tokens to; on demand perturbed, to try what replay is worth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch
from transformers import PreTrainedModel

from lego_verl.workers.router_replay.families import Router, decoder_layers, find_routers
from lego_verl.workers.router_replay.rows import byte_sized


class RouteRecorder:
    """Records every router's choice.

    Args:
        noise: standard deviation of what is added to the router's logits before it chooses, in logits; 0 for nothing.
            The experts that it then chooses are weighed by the logits as they were, so that a trainer that replays
            them computes the same: only the choice is perturbed.
        seed: of the noise. The same batches in the same order get the same.

    Raises:
        UnknownRouterError: for a dense model, or a router that is not known.
    """

    def __init__(self, model: PreTrainedModel, *, noise: float = 0.0, seed: int = 0) -> None:
        self._routers = find_routers(model)
        self._shape = decoder_layers(model), self._routers[0].top_k
        self._dtype = torch.uint8 if byte_sized(self._routers[0].experts) else torch.int16
        self._noise = noise
        self._generator = torch.Generator(next(model.parameters()).device).manual_seed(seed)
        self._captured: dict[int, torch.Tensor] = {}
        for router in self._routers:
            router.intercept(self._choose)

    @contextmanager
    def undisturbed(self) -> Iterator[None]:
        """Inside, routers choose without noise."""
        noise, self._noise = self._noise, 0.0
        try:
            yield
        finally:
            self._noise = noise

    def _choose(
        self,
        router: Router,
        logits: torch.Tensor,
        index: torch.Tensor,
        select: Callable[[torch.Tensor], torch.Tensor],
    ) -> torch.Tensor:
        if self._noise:
            noise = torch.randn(logits.shape, generator=self._generator, device=logits.device)
            index = select(logits + self._noise * noise.to(logits.dtype))
        self._captured[router.layer] = index.detach().to(self._dtype)
        return index

    def take(self, rows: int, width: int) -> torch.Tensor:
        """Experts of the forward pass that just ended, shape (rows, width, layers, top_k), on the CPU.

        One byte an index where there are less than 256 experts, else int16. Layers without a router stay 0.
        """
        layers, top_k = self._shape
        first = next(iter(self._captured.values()))
        routes = torch.zeros(rows * width, layers, top_k, dtype=self._dtype, device=first.device)
        for layer, experts in self._captured.items():
            routes[:, layer] = experts
        self._captured.clear()
        return routes.reshape(rows, width, layers, top_k).cpu()

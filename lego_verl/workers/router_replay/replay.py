"""Replay in a forward pass: every router takes the experts that were recorded for its rows.

The rows that are replayed belong to one forward pass, and to the recomputation of its layers under gradient
checkpointing, which happens in the backward pass, perhaps after other forward passes began. So they are no state
that lasts: ``checkpoint_contexts`` gives each checkpointed layer the pass that it was run in. A router that runs
outside any pass is an error, for it would choose experts that nobody recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from types import TracebackType

import torch

from lego_verl.workers.router_replay.families import Router
from lego_verl.workers.router_replay.rows import RoutesError, recorded_rows


class Pass:
    """One forward pass: the recorded rows, and how they compare with what the routers would have chosen.

    Args:
        rows: (rows, layers, top_k) in the order in which routers see them; None to let all routers choose.
        routers: of the model.
        layers: of the decoder.

    Raises:
        RoutesError: when the rows are of a model with other layers, top-k or fewer experts.
    """

    def __init__(self, rows: torch.Tensor | None, routers: Sequence[Router], layers: int) -> None:
        self.rows = rows
        self.layers = layers
        self.agreed: dict[int, torch.Tensor] = {}
        """By layer: (rows,) how many of the recorded experts the router would have chosen itself."""
        self.recorded: dict[int, torch.Tensor] = {}
        """By layer with a router: (rows,) bool."""
        if rows is None:
            return
        if rows.shape[1:] != (layers, routers[0].top_k):
            raise RoutesError(
                f"routes of {rows.shape[1]} layers and {rows.shape[2]} experts a token were recorded; the trainer's "
                f"model has {layers} decoder layers and sends a token to {routers[0].top_k} experts"
            )
        where = [router.layer for router in routers]
        marks = recorded_rows(rows[:, where], routers[0].experts)
        self.recorded = dict(zip(where, marks.unbind(1), strict=True))

    def choose(self, router: Router, index: torch.Tensor) -> torch.Tensor:
        """The recorded experts of a router's rows, and its own where none were recorded; (rows, top_k)."""
        if self.rows is None:
            return index
        if len(index) != len(self.rows):
            raise RoutesError(f"layer {router.layer} routes {len(index)} rows, and {len(self.rows)} were recorded")
        target = self.rows[:, router.layer].to(index.dtype)
        if router.layer not in self.agreed:  # else the layer is computed again
            same = (index[:, :, None] == target[:, None, :]).any(1)
            self.agreed[router.layer] = same.sum(-1, dtype=torch.int8)
        return torch.where(self.recorded[router.layer][:, None], target, index)

    def agreement(self) -> torch.Tensor | None:
        """(rows, layers) int8: how many of a row's recorded experts the router would have chosen itself; -1 where
        nothing was replayed. None for a pass without recorded rows."""
        if self.rows is None:
            return None
        found = torch.full((len(self.rows), self.layers), -1, dtype=torch.int8, device=self.rows.device)
        for layer, agreed in self.agreed.items():
            found[:, layer] = torch.where(self.recorded[layer], agreed, found[:, layer])
        return found


class RouterReplay:
    """Puts itself into a model's routers.

    Args:
        routers: of the model.
        layers: of the decoder.
    """

    def __init__(self, routers: Sequence[Router], layers: int) -> None:
        self._routers, self._layers = routers, layers
        self._current: Pass | None = None
        for router in routers:
            router.intercept(self._choose)

    @contextmanager
    def forward_pass(self) -> Iterator[None]:
        """A forward pass goes on inside; ``begin`` is to be called before the model is."""
        try:
            yield
        finally:
            self._current = None

    def begin(self, rows: torch.Tensor | None) -> None:
        """Replay these rows until the forward pass ends; None lets the routers choose.

        Raises:
            RoutesError: see ``Pass``.
        """
        self._current = Pass(rows, self._routers, self._layers)

    @property
    def current(self) -> Pass:
        """The pass that goes on.

        Raises:
            RuntimeError: when there is none.
        """
        if self._current is None:
            raise RuntimeError("a router ran outside a forward pass that says which experts to replay")
        return self._current

    def checkpoint_contexts(self) -> tuple[AbstractContextManager[None], AbstractContextManager[None]]:
        """``context_fn`` of ``torch.utils.checkpoint``: contexts of a layer's forward pass and its recomputation."""
        return _Again(self, self.current), _Again(self, self.current)

    def _choose(
        self,
        router: Router,
        _logits: torch.Tensor,
        index: torch.Tensor,
        _select: Callable[[torch.Tensor], torch.Tensor],
    ) -> torch.Tensor:
        return self.current.choose(router, index)


class _Again(AbstractContextManager[None]):
    """Inside, routers replay a pass that was begun before. May be entered again, as a second backward pass does."""

    def __init__(self, replay: RouterReplay, earlier: Pass) -> None:
        self._replay, self._earlier = replay, earlier
        self._before: list[Pass | None] = []

    def __enter__(self) -> None:
        self._before.append(self._replay._current)
        self._replay._current = self._earlier

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._replay._current = self._before.pop()

"""A weight sync that did not arrive stops the run: after every one both engines score the same fixed sequences.

In the field an adapter that never reached the rollout engine went unseen for two months (verl#7495): it looked like
staleness. Here a sync is held to six things, each of which a fault of another kind breaks. Differences are root mean
squares over tokens, of log-probabilities.

1. Every server holds the version that was sent.
2. Server and trainer differ by no more than ``tolerance``.
3. Nor by more than a hundredth of the trainer's move since the sync before, unless that is within four times what they
   differed by then. Where both compute alike, this sees a part that stayed behind in an update far below the tolerance.
4. Where the trainer's scores moved, the server's moved as well.
5. And by as much: ``arrived`` is the share of the trainer's move that a server made, which is 1 for a whole sync, 0
   for one that was skipped, between them for half of one, and anything else for other weights. Where the engines
   compute in different number formats, this sees a move that is smaller than their difference.
6. In a mixture of experts, servers send the sequences' tokens to the same experts; with router replay the trainer
   would have chosen them as well, and made to use them it says what the server says.

Nothing here knows verl or Ray: what is compared comes as ``Reading`` (``canary_readings.py``).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

LEAST_ROUTES = 0.98
"""Share of the expert choices in which two engines must agree: a near tie may fall either way on other hardware."""
_PART = 0.01
"""Of the trainer's move: what of it may be missing in a server's."""
_WORSE = 4.0
"""Times that the engines' difference may be what it was at the sync before."""
_NOISE = 1e-5
"""A difference that is numerical in any case, in nats."""
_MOVE_OFF = 0.2
"""How far from 1 ``arrived`` may be; more where the engines' numerical difference leaves it less certain."""
_KEPT = 0.9
"""Share of the tokens that ``arrived`` is taken from."""
_ERRORS = 4.0
"""Standard errors of ``arrived`` that are taken for numerical."""


class WeightSyncError(RuntimeError):
    """Rollout and trainer do not hold the same weights."""


@dataclass(frozen=True)
class Reading:
    """What one engine says of the canary's sequences."""

    logprobs: NDArray[np.float32]
    """(tokens,) of every token but the first of each sequence, all sequences one after another."""
    version: int | None = None
    """Of the weights, as the engine counts; None where it does not."""
    routes: NDArray[np.integer[Any]] | None = None
    """(positions, layers, top_k) experts of every position of all sequences; None where the engine gives none."""


@dataclass(frozen=True)
class Replayed:
    """What the trainer says when it replays the first server's routes."""

    logprobs: NDArray[np.float32]
    """As of ``Reading``."""
    agreement: float
    """Share of the server's choices that the trainer's routers would have made themselves."""


class Canary:
    """Compares readings after each weight sync, and with those of the sync before.

    Args:
        tolerance: largest difference between trainer and server, in nats: root mean square over tokens.
    """

    def __init__(self, *, tolerance: float) -> None:
        self._tolerance = tolerance
        self._before: tuple[Reading, list[Reading]] | None = None

    def check(
        self,
        trainer: Reading,
        servers: Sequence[Reading],
        *,
        sent: int,
        updated: bool,
        replayed: Replayed | None = None,
    ) -> dict[str, float]:
        """Compare what was read after a sync.

        Args:
            sent: the version that was sent.
            updated: the weights must have changed since the check before.
            replayed: with router replay.

        Returns:
            ``canary/difference`` (of the server that differs most) and ``canary/change`` (of the trainer since the
            check before), in nats; ``canary/arrived`` (of the server where it is farthest from 1); with
            routes ``canary/routes_changed``, the share of the first server's choices that differ from the check
            before, and with replay ``canary/replay_difference`` and ``canary/route_agreement``. NaN where there is
            nothing to compare.

        Raises:
            WeightSyncError: in one line, with what differs.
        """
        for number, server in enumerate(servers):
            self._same_weights(number, server, trainer, sent)
        change = self._moved(trainer, updated)
        arrived = [self._arrived(number, server, trainer) for number, server in enumerate(servers)]
        _same_routes(servers)
        found = {
            "canary/difference": max((_difference(server, trainer) for server in servers), default=math.nan),
            "canary/change": change,
            "canary/arrived": max(arrived, key=lambda share: abs(share - 1), default=math.nan),
        }
        if servers and servers[0].routes is not None:
            before = self._before[1][0] if self._before else None
            found["canary/routes_changed"] = math.nan if before is None else 1 - _alike(servers[0], before)
        if replayed is not None:
            found |= self._replayed(replayed, servers[0])
        self._before = trainer, list(servers)
        return found

    def _replayed(self, replayed: Replayed, server: Reading) -> dict[str, float]:
        differs = _difference(replayed, server)
        if not differs <= self._tolerance:
            raise WeightSyncError(
                f"replaying the canary's routes, trainer and rollout server 0 differ by {differs:.3g} in "
                f"log-probabilities (lego.guard.canary_tolerance={self._tolerance:g}): what is replayed is "
                "not what was recorded"
            )
        if replayed.agreement < LEAST_ROUTES:
            raise WeightSyncError(
                f"the trainer would send the canary's tokens to the experts of rollout server 0 in "
                f"{replayed.agreement:.1%} of the choices only: their routers do not hold the same weights"
            )
        return {"canary/replay_difference": differs, "canary/route_agreement": replayed.agreement}

    def _same_weights(self, number: int, server: Reading, trainer: Reading, sent: int) -> None:
        if server.version is not None and server.version != sent:
            raise WeightSyncError(
                f"after a weight sync, rollout server {number} says that it holds version {server.version}, and "
                f"{sent} was sent"
            )
        differs = _difference(server, trainer)
        if not differs <= self._tolerance:  # so is it with NaN
            raise WeightSyncError(
                f"after weight sync {sent}, rollout server {number} and trainer differ by {differs:.3g} in the "
                f"canary's log-probabilities (lego.guard.canary_tolerance={self._tolerance:g}): the weights did not "
                "arrive"
            )

    def _moved(self, trainer: Reading, updated: bool) -> float:
        if self._before is None:
            return math.nan
        change = _difference(trainer, self._before[0])
        if updated and change == 0.0:
            raise WeightSyncError(
                "an update left the canary's log-probabilities exactly as they were: nothing was learnt"
            )
        return change

    def _arrived(self, number: int, server: Reading, trainer: Reading) -> float:
        """The share of the trainer's move that the server made."""
        if self._before is None:
            return math.nan
        old_trainer, old_server = self._before[0], self._before[1][number]
        moved, differs, differed = (
            _difference(*pair) for pair in ((trainer, old_trainer), (server, trainer), (old_server, old_trainer))
        )
        if moved == 0.0:
            return math.nan
        if _difference(server, old_server) == 0.0:
            raise WeightSyncError(
                f"the trainer's weights changed, and rollout server {number} scores the canary exactly as before: the "
                "weights did not arrive"
            )
        share, error = _slope(
            server.logprobs.astype(np.float64) - old_server.logprobs,
            trainer.logprobs.astype(np.float64) - old_trainer.logprobs,
        )
        if not abs(share - 1) <= max(_MOVE_OFF, _ERRORS * error):
            raise WeightSyncError(
                f"after a weight sync, rollout server {number} made {share:.2f} of the trainer's move on the canary "
                f"(1 is a whole sync; standard error {error:.2f}): what arrived is not what was sent"
            )
        if differs > max(_PART * moved, _WORSE * differed, _NOISE):
            raise WeightSyncError(
                f"after a weight sync, rollout server {number} and trainer differ by {differs:.2g} in the canary's "
                f"log-probabilities, and by {differed:.2g} after the sync before; the update moved the trainer's by "
                f"{moved:.2g}: a part of it did not arrive"
            )
        return share


def _slope(server: NDArray[np.float64], trainer: NDArray[np.float64]) -> tuple[float, float]:
    """The slope of one move on the other, and its standard error, by least squares.

    Of most tokens: in 16 bits a router near a tie sends one to other experts than the trainer's, and what that token
    then does is the expert's move and not the sync's.
    """
    kept = np.argsort(np.abs(server - trainer))[: math.ceil(_KEPT * len(trainer))]
    server, trainer = server[kept], trainer[kept]
    square = float(trainer @ trainer)
    if square == 0.0:
        return 1.0, math.inf
    share = float(server @ trainer) / square
    return share, math.sqrt(float(np.square(server - trainer).mean()) / square)


def _difference(a: Reading | Replayed, b: Reading) -> float:
    """Root mean square over tokens, in nats."""
    return math.sqrt(float(np.square(a.logprobs.astype(np.float64) - b.logprobs).mean()))


def _same_routes(servers: Sequence[Reading]) -> None:
    for number, server in enumerate(servers[1:], 1):
        alike = _alike(server, servers[0])
        if alike < LEAST_ROUTES:
            raise WeightSyncError(
                f"after a weight sync, rollout servers 0 and {number} send the canary's tokens to the same experts in "
                f"{alike:.1%} of the choices only: they do not hold the same weights"
            )


def _alike(a: Reading, b: Reading) -> float:
    """Share of the expert choices of ``a`` that are ``b``'s at the same position and layer, in whatever order."""
    if a.routes is None or b.routes is None or not a.routes.size:
        return 1.0
    if a.routes.shape != b.routes.shape:
        raise WeightSyncError(
            f"rollout servers give the canary's routes in shapes {a.routes.shape} and {b.routes.shape}"
        )
    return float((a.routes[..., :, None] == b.routes[..., None, :]).any(-1).mean())

"""Which tokens of a step's batch carry loss, and what each of them belongs to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lego_verl.workers.alignment import alignment, by
from lego_verl.workers.alignment_routes import AGREEMENT, routes_of_loss_tokens

POSITIONS = (0, 256, 1024, 4096, 16384, 65536)
"""Where the buckets of ``by_position`` begin, in tokens from the start of the sequence."""
SEGMENTS = 3
"""Segments of a trial from this one on are counted together."""


@dataclass(frozen=True)
class Row:
    """One segment of a trial in a step's batch."""

    trainer: NDArray[np.float32]
    """(response,) log-probabilities under the weights before the update."""
    rollout: NDArray[np.float32]
    """(response,) log-probabilities that it was sampled with."""
    mask: NDArray[np.bool_]
    """(response,) whether the token carries loss."""
    prompt: int
    """Tokens before the response."""
    segment: int
    """Which of its trial's segments it is, from 0."""
    harness: str
    versions: Sequence[tuple[int, int]]
    """(weight version, loss tokens) in order: what sampled them. They add up to the loss tokens."""
    routes: NDArray[np.int8] | None = None
    """(prompt + response, layers) how far the trainer's routers agree with what was replayed (``alignment_routes``)."""


def step_alignment(rows: Sequence[Row], version: int) -> dict[str, Any]:
    """``alignment`` of a step's loss tokens: ``overall``, ``by_harness``, ``by_segment``, ``by_position``, ``by_lag``.

    Labels: the harness's name; ``0``, ``1``, ``2``, ``3+``, the segment's place in its trial; the token at which the
    bucket of positions begins; and the weight updates between the weights that sampled the token and the trainer's.

    Args:
        version: of the trainer's weights, as the rollout servers count it.

    Raises:
        ValueError: when a row's versions do not add up, or as ``alignment`` says.
    """
    trainer = _joined([row.trainer[row.mask] for row in rows], np.float32)
    rollout = _joined([row.rollout[row.mask] for row in rows], np.float32)
    counts = [int(row.mask.sum()) for row in rows]
    harnesses = sorted({row.harness for row in rows})
    positions = _joined([np.flatnonzero(row.mask) + row.prompt for row in rows], np.int64)
    lag = _joined([lags(row, version) for row in rows], np.int64)
    places = [*(str(place) for place in range(SEGMENTS)), f"{SEGMENTS}+"]
    labels = {
        "harness": (_repeated([harnesses.index(row.harness) for row in rows], counts), harnesses),
        "segment": (_repeated([min(row.segment, SEGMENTS) for row in rows], counts), places),
        "position": (np.searchsorted(POSITIONS, positions, side="right") - 1, [str(begin) for begin in POSITIONS]),
    }
    ages = {int(age): str(age) for age in range(lag.min(initial=0), lag.max(initial=0) + 1)}
    return {
        "overall": alignment(trainer, rollout),
        **{f"by_{kind}": by(of, dict(enumerate(names)), trainer, rollout) for kind, (of, names) in labels.items()},
        "by_lag": by(lag, ages, trainer, rollout),
    }


def step_routes(rows: Sequence[Row], top_k: int) -> dict[str, Any]:
    """``alignment_routes.routes_of_loss_tokens`` of a step.

    Args:
        rows: with ``routes``.
        top_k: experts that a token is sent to.
    """
    known = [(row, row.routes) for row in rows if row.routes is not None]
    return routes_of_loss_tokens(
        [routes for _, routes in known], [row.mask for row, _ in known], [row.prompt for row, _ in known], top_k
    )


def lags(row: Row, version: int) -> NDArray[np.int64]:
    """(loss tokens,) weight updates between the weights that sampled a token and ``version``."""
    sampled = [number for number, _ in row.versions]
    tokens = [count for _, count in row.versions]
    if sum(tokens) != int(row.mask.sum()):
        raise ValueError(f"weight versions are known of {sum(tokens)} tokens, and {int(row.mask.sum())} carry loss")
    return version - np.repeat(np.array(sampled, dtype=np.int64), tokens)


def version_runs(versions: NDArray[np.int32]) -> list[tuple[int, int]]:
    """(version, tokens) of each run of tokens that one version sampled.

    Args:
        versions: (loss tokens,) in order.
    """
    if not len(versions):
        return []
    starts = [0, *(np.flatnonzero(np.diff(versions)) + 1).tolist(), len(versions)]
    return [(int(versions[start]), stop - start) for start, stop in pairwise(starts)]


def rows_of(data: Mapping[str, Any], keys: Sequence[str], tags: Sequence[Mapping[str, Any]]) -> list[Row]:
    """The rows of a batch that are no padding, from what verl's queue holds of them.

    Args:
        data: ``old_log_probs``, ``rollout_log_probs``, ``response_mask`` (nested, of shape (rows, response)) and
            ``extra_fields``, which holds ``harness`` and ``version_runs`` (``agent_loop.outputs``); with router replay
            also what the engine says of routes.
        keys: ``{group}_{trial in the group}_{segment}``.
    """
    columns = zip(
        keys,
        tags,
        data["old_log_probs"].unbind(),
        data["rollout_log_probs"].unbind(),
        data["response_mask"].unbind(),
        data["extra_fields"],
        data[AGREEMENT].unbind() if AGREEMENT in data else [None] * len(keys),
        strict=True,
    )
    rows = []
    for key, tag, trainer, rollout, mask, extra, routes in columns:
        if tag.get("is_padding", False):
            continue
        fields = getattr(extra, "data", extra)
        rows.append(
            Row(
                trainer=trainer.float().numpy(),
                rollout=rollout.float().numpy(),
                mask=mask.bool().numpy(),
                prompt=int(tag["prompt_len"]),
                segment=int(key.rsplit("_", 1)[1]),
                harness=str(fields["harness"]),
                versions=[(int(version), int(tokens)) for version, tokens in fields["version_runs"]],
                routes=None if routes is None else routes.numpy(),
            )
        )
    return rows


def _repeated(values: Sequence[int], counts: Sequence[int]) -> NDArray[np.int64]:
    """(tokens,) each row's value for each of its tokens."""
    return np.repeat(np.array(values, dtype=np.int64), np.array(counts, dtype=np.int64))


def _joined(parts: Sequence[NDArray[Any]], dtype: Any) -> NDArray[Any]:
    return np.concatenate([*parts, np.empty(0, dtype)]).astype(dtype)

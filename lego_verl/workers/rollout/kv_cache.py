"""Keys and values of sequences that were generated before, found again by their token prefix.

verl gives every request a new id, so a session is not known here; but a harness's next prompt begins with
the tokens of its last one, and every trial begins with the same system prompt. The longest stored prefix is
reused, whoever stored it.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

Layers = list[tuple[torch.Tensor, torch.Tensor]]
"""Keys and values of each layer, each of shape (heads, tokens, head_dim)."""


@dataclass
class CachedSequence:
    ids: NDArray[np.int64]
    layers: Layers
    routes: torch.Tensor | None
    """Experts of each position, shape (tokens, layers, top_k), where the engine records them."""

    def prefix(self, length: int) -> CachedSequence:
        """The first ``length`` tokens, as views."""
        return CachedSequence(
            self.ids[:length],
            [(keys[:, :length], values[:, :length]) for keys, values in self.layers],
            None if self.routes is None else self.routes[:length],
        )


class PrefixCache:
    """At most ``max_tokens`` tokens of finished sequences; the least recently used go first."""

    def __init__(self, max_tokens: int) -> None:
        self.max_tokens = max_tokens
        self._sequences: OrderedDict[int, CachedSequence] = OrderedDict()
        self._next = 0
        self._tokens = 0

    def longest_prefix(self, ids: NDArray[np.int64]) -> CachedSequence | None:
        """The longest stored common prefix of ``ids``, never all of them: the last token must still be computed."""
        best_key, best_length = -1, 0
        for key, sequence in self._sequences.items():
            limit = min(len(sequence.ids), len(ids) - 1)
            if limit <= best_length:
                continue
            different = np.flatnonzero(sequence.ids[:limit] != ids[:limit])
            length = int(different[0]) if len(different) else limit
            if length > best_length:
                best_key, best_length = key, length
        if best_length == 0:
            return None
        self._sequences.move_to_end(best_key)
        return self._sequences[best_key].prefix(best_length)

    def store(self, sequence: CachedSequence) -> None:
        """Keep a sequence in place of those that are prefixes of it."""
        for key in [key for key, old in self._sequences.items() if _is_prefix(old.ids, sequence.ids)]:
            self._tokens -= len(self._sequences.pop(key).ids)
        self._sequences[self._next] = sequence
        self._next += 1
        self._tokens += len(sequence.ids)
        while self._tokens > self.max_tokens and len(self._sequences) > 1:
            _, oldest = self._sequences.popitem(last=False)
            self._tokens -= len(oldest.ids)

    def clear(self) -> None:
        """Forget everything: the weights have changed."""
        self._sequences.clear()
        self._tokens = 0


def _is_prefix(short: NDArray[np.int64], long: NDArray[np.int64]) -> bool:
    return len(short) <= len(long) and bool((long[: len(short)] == short).all())

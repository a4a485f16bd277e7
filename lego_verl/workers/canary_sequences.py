"""What the canary has scored: sequences in which every part of a model has a say."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

LENGTH = 64
"""Tokens of a sequence, at most."""
RANDOM = 4
"""Sequences of random ids: between them they reach rows of the embedding, and experts, that no task's text does."""
LINE = "A weight sync has arrived when both engines say the same about this line, and something new. 0123456789"


def canary_sequences(
    encode: Callable[[str], Sequence[int]], texts: Sequence[str], *, vocabulary: int, seed: int
) -> list[list[int]]:
    """The same for the same arguments: ``LINE`` and the beginnings of ``texts``, and ``RANDOM`` of ids by chance.

    Args:
        texts: of the task's own kind.
        vocabulary: ids from 0 up to this one are drawn.

    Returns:
        Sequences of 2 to ``LENGTH`` ids.
    """
    own = [list(encode(text))[:LENGTH] for text in (LINE, *texts)]
    drawn = np.random.default_rng(seed).integers(0, vocabulary, (RANDOM, LENGTH))
    return [ids for ids in [*own, *drawn.tolist()] if len(ids) >= 2]

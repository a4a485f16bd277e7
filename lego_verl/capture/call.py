"""The contract between proxy, policy and capture: a sample, and the call it belongs to.

Token ids are int32, log-probabilities float32, weight versions int32; all three have the length of
the sampled tokens. Expert routes are ``uint8`` or ``int16`` of shape (rows, layers, top_k).
"""

from __future__ import annotations

import hashlib
from array import array
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

Routes = NDArray[Any]
"""``uint8`` or ``int16`` of shape (rows, layers, top_k)."""
Finish = Literal["stop", "length", "aborted"]


class IncompleteSample(ValueError):
    """A generation whose parts do not fit together; it is never trained."""


@dataclass(frozen=True)
class Sample:
    """What the policy generated for one prompt, as the engine reported it.

    ``routes``, where the engine records them, are the experts of every position that went through
    the model: prompt and sampled tokens but the last, by absolute position.
    """

    ids: NDArray[np.int32]
    logprobs: NDArray[np.float32]
    versions: NDArray[np.int32]
    finish: Finish
    routes: Routes | None = None

    def check(self) -> None:
        """Raise ``IncompleteSample`` unless ids, log-probabilities and versions have one length and are sane."""
        n = len(self.ids)
        if len(self.logprobs) != n or len(self.versions) != n:
            raise IncompleteSample(
                f"{n} sampled ids came with {len(self.logprobs)} log-probabilities and {len(self.versions)} versions"
            )
        if n == 0:
            raise IncompleteSample("the policy returned no token")
        # NaN is neither at most the one nor above the other.
        if not self.logprobs.max() <= 1e-4 or not self.logprobs.min() > -np.inf:
            raise IncompleteSample("a log-probability is not a finite number at or below 0")


@dataclass(frozen=True)
class Call:
    """One generation of a session: frozen once committed."""

    index: int
    """Order of the call in its session, from 0."""
    segment: int
    """The segment that it extended or began."""
    prompt_length: int
    """Tokens sent to the engine; the call's sampled tokens follow them in the segment."""
    sample: Sample
    text: str
    """The sampled tokens decoded, special tokens kept."""
    seconds: float
    prompt_digest: bytes
    """``digest`` of the very ids that were handed to the engine: what the context promise is checked against."""


def digest(ids: array[int] | NDArray[Any]) -> bytes:
    """16 bytes that stand for a sequence of int32 ids (an array that is contiguous)."""
    data: Any = ids  # typeshed does not know that both lend their buffer
    return hashlib.sha256(data).digest()[:16]

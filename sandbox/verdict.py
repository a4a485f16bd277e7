"""What grading says of a patch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Status = Literal["graded", "patch_failed", "failed", "timeout", "tampered"]


@dataclass(frozen=True)
class Verdict:
    """How a patch was judged. ``reward`` is None where there is no judgement."""

    reward: float | None
    status: Status
    output: str
    """What the verifier printed, or why there is no verdict."""
    seconds: float
    signs: tuple[str, ...] = ()
    """What looked like an attack, whether or not it changed anything."""
    memory_mb: float | None = None
    """The largest process of the verifier; only when it was asked for and could be told."""
    outlived: bool = False
    """Whether a process of the verifier outlived the one that had started it."""
    controlled: bool = False
    """Whether the reward has met a control experiment."""

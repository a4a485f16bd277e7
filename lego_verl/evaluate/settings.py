"""What an evaluation takes beside the key ``lego``."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from omegaconf import MISSING


class Split(Enum):
    heldout = "heldout"
    train = "train"
    all = "all"


@dataclass
class SamplingConfig:
    """How an endpoint is asked to sample."""

    temperature: float = 1.0
    top_p: float = 1.0


@dataclass
class EvaluateConfig:
    """The top of ``recipes/evaluate.yaml``."""

    harnesses: list[str] = field(default_factory=list)
    budgets: list[int] = field(default_factory=list)
    """Turns of a trial; none: ``lego.harness.turn_limit``."""
    repeat: int = 1
    """Trials of each task, harness and budget."""
    split: Split = Split.heldout
    only: list[str] = field(default_factory=list)
    """Names of tasks; none: all of the split."""
    out: str = MISSING
    sampling: SamplingConfig = field(default_factory=SamplingConfig)

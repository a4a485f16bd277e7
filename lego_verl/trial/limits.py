"""What one trial may use of the policy and of time. What its sandbox may use is ``sandbox.Limits``."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TrialLimits:
    """Where a limit is met the trial ends with that outcome, and what the agent left is graded."""

    turns: int = 30
    """Calls of the policy."""
    tokens: int | None = 100_000
    """Sampled tokens over the whole trial."""
    context: int | None = None
    """Tokens of prompt and reply of one call."""
    seconds: float = 1800.0
    """Wall time of the harness; a task's own agent timeout counts where it is shorter."""
    grading_seconds: float = 300.0
    """Wall time of the verifier; a task's own verifier timeout counts where it is shorter."""
    patch_bytes: int = 8 << 20
    version_span: int | None = None
    """Weight updates between the first sampled token and the last; a trial with more is dropped as stale."""

"""What one trial may use of the policy and of time. What its sandbox may use is ``sandbox.Limits``."""

from __future__ import annotations

from dataclasses import dataclass

_AROUND_SECONDS = 300.0
"""What a keeper's grace, the short commands around a harness and a verifier, and closing may add."""


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
    reply_share: float = 0.5
    """Share of the harness's wall time that one reply may take. A policy that takes longer hangs: that is its own
    failure, and must not come out as an agent that ran out of time."""
    pause_seconds: float = 0.0
    """Wall time that a trial may stand still while the policy is updated; it is added to the two above, which go on."""
    version_span: int | None = None
    """Weight updates between the first sampled token and the last; a trial with more is dropped as stale."""

    def attempt_seconds(self, start_seconds: float, gradings: int) -> float:
        """Wall time of one attempt, from its slot to its verdict: what its parts may take, graded ``gradings`` times.

        A verdict may take two sandboxes (see ``sandbox.control``), and each ``start_seconds`` to start.
        """
        grading = 2 * (start_seconds + self.grading_seconds)
        return start_seconds + self.seconds + self.pause_seconds + gradings * grading + _AROUND_SECONDS

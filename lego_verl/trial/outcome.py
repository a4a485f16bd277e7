"""How a trial ended, and what training does with it: the one table that every boundary uses.

Four mechanisms hold failures together. This vocabulary; one attribution at each boundary (sandbox,
harness, policy, capture, grader) that turns what escapes into an ``Outcome``; one place where an
outcome surfaces (the trial's record); one place that accounts for it (``ledger``). A bad trial is
data, not a crash; and infrastructure never becomes a reward.
"""

from __future__ import annotations

from enum import StrEnum


class Treatment(StrEnum):
    TRAIN = "train"
    DROP = "drop"
    """Outside the group's statistics; run again while retries are left."""
    FLAG = "flag"
    """Reward 0, trained, and pointed out."""


class Outcome(StrEnum):
    SOLVED = "solved"
    UNSOLVED = "unsolved"
    TURN_LIMIT = "turn_limit"
    TOKEN_LIMIT = "token_limit"
    CONTEXT_OVERFLOW = "context_overflow"
    TIME_LIMIT = "time_limit"
    GAVE_UP = "gave_up"
    NO_PATCH = "no_patch"
    HARNESS_FAILED = "harness_failed"
    SANDBOX_FAILED = "sandbox_failed"
    IMAGE_MISSING = "image_missing"
    SANDBOX_LOST = "sandbox_lost"
    OUT_OF_MEMORY = "out_of_memory"
    DISK_FULL = "disk_full"
    POLICY_FAILED = "policy_failed"
    CAPTURE_INCOMPLETE = "capture_incomplete"
    STALE = "stale"
    GRADER_FAILED = "grader_failed"
    GRADER_TIMEOUT = "grader_timeout"
    TAMPERED = "tampered"

    @property
    def treatment(self) -> Treatment:
        if self is Outcome.TAMPERED:
            return Treatment.FLAG
        return Treatment.TRAIN if self in _TRAINED else Treatment.DROP

    @property
    def retried(self) -> bool:
        """Whether another attempt may end better: faults of infrastructure, not of the policy's data."""
        return self in _RETRIED

    @property
    def of_the_machine(self) -> bool:
        """Whether the machine or its daemon was at fault, which takes longer to come back than a process."""
        return self in (Outcome.SANDBOX_FAILED, Outcome.SANDBOX_LOST)


_TRAINED = frozenset(
    {
        Outcome.SOLVED,
        Outcome.UNSOLVED,
        Outcome.TURN_LIMIT,
        Outcome.TOKEN_LIMIT,
        Outcome.CONTEXT_OVERFLOW,
        Outcome.TIME_LIMIT,
        Outcome.GAVE_UP,
        Outcome.NO_PATCH,
    }
)
_RETRIED = frozenset(
    {
        Outcome.HARNESS_FAILED,
        Outcome.SANDBOX_FAILED,
        Outcome.SANDBOX_LOST,
        Outcome.OUT_OF_MEMORY,
        Outcome.DISK_FULL,
        Outcome.GRADER_FAILED,
        Outcome.GRADER_TIMEOUT,
    }
)

"""What happened in one step, on one split of the tasks, and whether it is fit to train on."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from lego_verl.trial.ledger import LedgerError
from lego_verl.workers.sampled_groups import NO_VARIANCE, SURPLUS

NAMES = 5
"""Trials that a message names, at most."""
_LINE = 300


@dataclass
class StepAccount:
    """What happened in one step, on one split of the tasks."""

    step: int
    split: str
    submitted: int = 0
    trained: int = 0
    dropped: int = 0
    pending: int = 0
    retried: int = 0
    """Attempts beyond the first of each trial."""
    refilled: int = 0
    """Of those submitted, those that replaced one that was dropped."""
    waiting: list[str] = field(default_factory=list)
    """Some of the pending trials, by name."""
    outcomes: dict[str, int] = field(default_factory=dict)
    dropped_why: dict[str, int] = field(default_factory=dict)
    """By outcome, or ``small_group``."""
    solve_rate: float | None = None
    """Solved share of the graded trials; infrastructure stands apart."""
    reward: float | None = None
    groups: int = 0
    zero_variance_groups: int = 0
    small_groups: int = 0
    """Groups with fewer trials left than ``lego.trial.min_group``; their trials are dropped."""
    evicted_groups: dict[str, int] = field(default_factory=dict)
    """Groups that verl's sampler took out of the step, by its reason; they are not among ``groups``."""
    in_flight: int = 0
    """Of an asynchronous run: trials that began and are for a later step."""
    harnesses: dict[str, dict[str, float]] = field(default_factory=dict)
    """What each harness did: see ``by_harness``."""
    calls: int = 0
    segments: int = 0
    splits: dict[str, int] = field(default_factory=dict)
    sampled_tokens: int = 0
    loss_tokens: int = 0
    proof_provenance: float | None = None
    proof_context: float | None = None
    rewards: dict[str, float] = field(default_factory=dict)
    """The verdict on each trial that is trained, by its name."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Summed over trials, by phase."""
    monitoring: dict[str, float] = field(default_factory=dict)
    """Seconds of processor time that went into what is for people since the last step: ``ledger`` (store, events, old
    steps), ``workers`` (trials' folders and counts)."""
    errors: dict[str, str] = field(default_factory=dict)
    """One message of each outcome that is dropped, in one line."""

    def check(self, min_trained: float | None = None) -> None:
        """Whether the account adds up and enough of the step is left.

        Args:
            min_trained: share of the submitted trials, and one at least, that must be left to train; None where
                nothing is to be trained.

        Raises:
            LedgerError: in one line, with what took the others.
        """
        where = f"step {self.step} ({self.split})"
        causes = "".join(f"; {outcome}: {message}" for outcome, message in self.errors.items())
        if self.pending or self.submitted != self.trained + self.dropped + self.pending:
            names = f" ({', '.join(self.waiting)})" if self.waiting else ""
            raise LedgerError(
                f"{where}: {self.submitted} trials submitted, {self.trained} to train, {self.dropped} dropped, "
                f"{self.pending} without an ending{names}{causes}"
            )
        if min_trained is None:
            return
        # What the sampler left out is no loss: others came in its place.
        left_out = sum(self.dropped_why.get(why, 0) for why in (NO_VARIANCE, SURPLUS))
        least = max(1, math.ceil(min_trained * (self.submitted - left_out)))
        if self.trained < least:
            taken = ", ".join(f"{why} {count}" for why, count in sorted(self.dropped_why.items()))
            raise LedgerError(
                f"{where}: {self.trained} of {self.submitted} trials can be trained, and lego.guard.min_trained="
                f"{min_trained:g} wants {least}; dropped: {taken or 'none'}{causes}"
            )


def some(names: Sequence[str]) -> str:
    """The first names of a list, and how many there are beside."""
    more = f" and {len(names) - NAMES} more" if len(names) > NAMES else ""
    return ", ".join(names[:NAMES]) + more


def one_line(text: object) -> str:
    """A message as part of a line: what starts it, and its end where it is long."""
    line = " ".join(str(text).split())
    return line if len(line) <= _LINE else f"{line[: _LINE // 2]} … {line[-_LINE // 2 :]}"

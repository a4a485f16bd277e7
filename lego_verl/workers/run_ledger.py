"""The run's account of its trials, in one Ray actor: agent loops report to it, the trainer closes each step.

A step's numbers come from here and not from the batch, because a trial that was dropped is not in the batch.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lego_verl.monitor.run_folder import append_line
from lego_verl.trial.ledger import Ledger
from lego_verl.trial.outcome import Outcome, Treatment

ACTOR_NAME = "lego_verl_run_ledger"


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
    calls: int = 0
    segments: int = 0
    splits: dict[str, int] = field(default_factory=dict)
    sampled_tokens: int = 0
    loss_tokens: int = 0
    proof_provenance: float | None = None
    proof_context: float | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    """Summed over trials, by phase."""
    errors: dict[str, str] = field(default_factory=dict)
    """One message of each outcome that is dropped."""


@dataclass
class _Book:
    """What is known of one step, on one split of the tasks."""

    ledger: Ledger = field(default_factory=Ledger)
    submitted: set[str] = field(default_factory=set)
    records: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    broken: str = ""


class RunLedger:
    """Keeps the accounts of all steps. Every method is quick: it is called from all rollout workers.

    Args:
        events: JSON-lines file that the display follows.
    """

    def __init__(self, events: str) -> None:
        self._events = Path(events)
        self._books: dict[tuple[int, str], _Book] = defaultdict(_Book)

    def broken(self, step: int, split: str, message: str) -> None:
        """An agent loop raised: no ending of a trial, but a fault of the worker or of this project."""
        book = self._books[(step, split)]
        book.broken = book.broken or message
        self._event("broken", step, split, error=message)

    def started(self, step: int, split: str, trial: str, task: str, attempt: int) -> None:
        """A trial began, or began again after a fault of infrastructure."""
        book = self._books[(step, split)]
        if trial not in book.submitted:
            book.submitted.add(trial)
            book.ledger.submit(trial)
        self._event("started", step, split, trial=trial, task=task, attempt=attempt)

    def retried(self, step: int, split: str, trial: str, outcome: str, error: str | None) -> None:
        self._event("retried", step, split, trial=trial, outcome=outcome, error=error)

    def finished(self, step: int, split: str, record: Mapping[str, Any]) -> None:
        """Take the final record of a trial (``TrialRecord`` as a dictionary).

        Raises:
            LedgerError: for a trial that was never submitted, or that finishes twice.
        """
        trial = str(record["trial"])
        book = self._books[(step, split)]
        book.ledger.finish(trial, Outcome(record["outcome"]))
        book.records[trial] = record
        self._event(
            "finished",
            step,
            split,
            trial=trial,
            task=record["task"],
            outcome=record["outcome"],
            reward=record["reward"],
            error=record.get("error"),
            attempts=record.get("attempts", 1),
            seconds=record.get("seconds", {}),
            sampled_tokens=record.get("sampled_tokens", 0),
        )

    def close(self, step: int, split: str, min_group: int = 1) -> dict[str, Any]:
        """Decide which trials of a step are trained, and forget the step; its ``StepAccount`` as a dictionary.

        Raises:
            LedgerError: when the trials do not add up.
        """
        book = self._books.pop((step, split), _Book())
        records = list(book.records.values())
        graded = [r for r in records if Outcome(r["outcome"]).treatment is not Treatment.DROP]
        groups: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for record in graded:
            groups[str(record["group"])].append(record)
        kept = [group for group in groups.values() if len(group) >= min_group]
        book.ledger.train(str(record["trial"]) for group in kept for record in group)
        small = [group for group in groups.values() if len(group) < min_group]
        book.ledger.drop((str(record["trial"]) for group in small for record in group), "small_group")
        buckets = book.ledger.check()

        account = StepAccount(step, split, **asdict(buckets))
        account.retried = sum(int(r.get("attempts", 1)) - 1 for r in records)
        if graded:
            account.solve_rate = sum(float(r["reward"]) >= 1.0 for r in graded) / len(graded)
            account.reward = sum(float(r["reward"]) for r in graded) / len(graded)
        account.groups = len({r["group"] for r in records})
        account.small_groups = account.groups - len(kept)
        account.zero_variance_groups = sum(len({float(r["reward"]) for r in group}) == 1 for group in kept)
        self._add_capture(account, [record for group in kept for record in group])
        for record in records:
            for phase, seconds in record.get("seconds", {}).items():
                account.seconds[phase] = account.seconds.get(phase, 0.0) + float(seconds)
            if Outcome(record["outcome"]).treatment is Treatment.DROP and record.get("error"):
                account.errors.setdefault(str(record["outcome"]), str(record["error"]))
        if book.broken:
            account.errors["rollout worker"] = book.broken
        return asdict(account)

    def _add_capture(self, account: StepAccount, graded: list[Mapping[str, Any]]) -> None:
        splits: Counter[str] = Counter()
        provenance = context = 0.0
        for record in graded:
            proof = record["proof"]
            splits.update(proof["splits"])
            account.calls += int(proof["calls"])
            account.segments += int(proof["segments"])
            account.sampled_tokens += int(proof["sampled_tokens"])
            account.loss_tokens += int(proof["loss_tokens"])
            provenance += float(proof["provenance"]) * int(proof["loss_tokens"])
            context += float(proof["context"]) * int(proof["loss_tokens"])
        account.splits = dict(splits)
        if account.loss_tokens:
            account.proof_provenance = provenance / account.loss_tokens
            account.proof_context = context / account.loss_tokens

    def _event(self, kind: str, step: int, split: str, **values: Any) -> None:
        append_line(self._events, {"t": time.time(), "event": kind, "step": step, "split": split, **values})

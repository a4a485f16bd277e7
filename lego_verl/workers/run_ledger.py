"""The run's account of its trials, in one Ray actor: agent loops report to it, the trainer closes each step.

A step's numbers come from here and not from the batch, because a trial that was dropped is not in the batch.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lego_verl.monitor.run_folder import append_line
from lego_verl.trial.ledger import Ledger
from lego_verl.trial.outcome import Outcome, Treatment
from lego_verl.workers.by_harness import by_harness
from lego_verl.workers.step_account import NAMES, StepAccount, one_line, some

ACTOR_NAME = "lego_verl_run_ledger"
LEDGER_SECONDS = 120.0
"""How long a question to the ledger may take: it answers at once, unless its node is gone."""


@dataclass
class _Book:
    """What is known of one step, on one split of the tasks."""

    ledger: Ledger = field(default_factory=Ledger)
    submitted: set[str] = field(default_factory=set)
    records: dict[str, Mapping[str, Any]] = field(default_factory=dict)
    refilled: int = 0
    broken: str = ""
    latest: float = 0.0
    """When one of its trials last began or ended."""

    @property
    def pending(self) -> list[str]:
        return sorted(self.submitted - self.records.keys())


class RunLedger:
    """Keeps the accounts of all steps. Every method is quick: it is called from all rollout workers.

    Args:
        events: JSON-lines file that the display follows.
        clock: seconds, of which only differences count.
    """

    def __init__(self, events: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._events, self._clock = Path(events), clock
        self._books: dict[tuple[int, str], _Book] = defaultdict(lambda: _Book(latest=clock()))

    def broken(self, step: int, split: str, message: str) -> None:
        """An agent loop raised: no ending of a trial, but a fault of the worker or of this project."""
        book = self._books[(step, split)]
        book.broken = book.broken or message
        self._event("broken", step, split, error=message)

    def started(self, step: int, split: str, trial: str, task: str, attempt: int) -> None:
        """A trial began, or began again after a fault of infrastructure."""
        book = self._touched(step, split)
        if trial not in book.submitted:
            book.submitted.add(trial)
            book.ledger.submit(trial)
        self._event("started", step, split, trial=trial, task=task, attempt=attempt)

    def refilled(self, step: int, split: str, trial: str, replaced: str) -> None:
        """A trial was dropped, and its group would be too small without the one that comes in its place."""
        self._touched(step, split).refilled += 1
        self._event("refilled", step, split, trial=trial, replaced=replaced)

    def overdue(self, step: int, split: str, seconds: float) -> str:
        """What is waited for in vain: a line when no trial of a step has begun or ended for so long; else empty.

        However many wait for their turn, the ones that run end within the time of one: where nothing has, a rollout
        worker or what it runs on is gone.
        """
        book = self._books[(step, split)]
        if self._clock() - book.latest <= seconds:
            return ""
        waits = some(book.pending) if book.pending else "the first of its trials to begin"
        done = f"{len(book.records)} of {len(book.submitted)} trials have ended"
        return f"step {step} ({split}): nothing has happened for {seconds:.0f} s; {done}; waiting for {waits}"

    def retried(self, step: int, split: str, trial: str, outcome: str, error: str | None) -> None:
        self._touched(step, split)
        self._event("retried", step, split, trial=trial, outcome=outcome, error=error)

    def finished(self, step: int, split: str, record: Mapping[str, Any]) -> None:
        """Take the final record of a trial (``TrialRecord`` as a dictionary).

        Raises:
            LedgerError: for a trial that was never submitted, or that finishes twice.
        """
        trial = str(record["trial"])
        book = self._touched(step, split)
        book.ledger.finish(trial, Outcome(record["outcome"]))
        book.records[trial] = record
        self._event(
            "finished",
            step,
            split,
            trial=trial,
            task=record["task"],
            harness=record.get("harness", ""),
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
        account.refilled, account.waiting = book.refilled, book.pending[:NAMES]
        if graded:
            account.solve_rate = sum(float(r["reward"]) >= 1.0 for r in graded) / len(graded)
            account.reward = sum(float(r["reward"]) for r in graded) / len(graded)
        account.harnesses = by_harness(records)
        account.groups = len({r["group"] for r in records})
        account.small_groups = account.groups - len(kept)
        account.zero_variance_groups = sum(len({float(r["reward"]) for r in group}) == 1 for group in kept)
        self._add_capture(account, [record for group in kept for record in group])
        for record in records:
            for phase, seconds in record.get("seconds", {}).items():
                account.seconds[phase] = account.seconds.get(phase, 0.0) + float(seconds)
            if Outcome(record["outcome"]).treatment is Treatment.DROP and record.get("error"):
                account.errors.setdefault(str(record["outcome"]), one_line(record["error"]))
        if book.broken:
            account.errors["rollout worker"] = one_line(book.broken)
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

    def _touched(self, step: int, split: str) -> _Book:
        book = self._books[(step, split)]
        book.latest = self._clock()
        return book

    def _event(self, kind: str, step: int, split: str, **values: Any) -> None:
        append_line(self._events, {"t": time.time(), "event": kind, "step": step, "split": split, **values})

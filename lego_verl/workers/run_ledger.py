"""The run's account of its trials, in one Ray actor: agent loops report to it, the trainer closes each step.

A step's numbers come from here and not from the batch, because a trial that was dropped is not in the batch. In a
synchronous run a step is made of the trials that began in it. In an asynchronous one it is made of the groups that the
trainer took, whenever they began; what it has not taken yet is in flight.
"""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lego_verl.monitor.alerts import Finding, Severity
from lego_verl.monitor.alerts.clock import OPENED
from lego_verl.monitor.kept_lines import KeptLines
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.monitor.spent import Spent
from lego_verl.monitor.step_watch import StepWatch
from lego_verl.monitor.store import Store
from lego_verl.monitor.store_index import catch_up
from lego_verl.monitor.store_retention import Housekeeper
from lego_verl.monitor.store_rows import TrialRows
from lego_verl.monitor.store_writer import StoreWriter
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
    group: dict[str, str] = field(default_factory=dict)
    """Of each trial, where the agent loop said it."""
    refilled: set[str] = field(default_factory=set)
    broken: str = ""
    latest: float = 0.0
    """When one of its trials last began or ended."""

    @property
    def pending(self) -> list[str]:
        return sorted(self.submitted - self.records.keys())

    def give(self, groups: Set[str], taken: _Book) -> None:
        """Hand over what is known of the trials of these groups."""
        for trial in [trial for trial, group in self.group.items() if group in groups]:
            taken.group[trial] = self.group.pop(trial)
            taken.submitted.add(trial)
            taken.ledger.submit(trial)
            self.submitted.discard(trial)
            if trial in self.records:
                taken.records[trial] = self.records.pop(trial)
                taken.ledger.finish(trial, Outcome(taken.records[trial]["outcome"]))
        taken.refilled |= self.refilled & taken.submitted
        self.refilled -= taken.refilled
        taken.broken, self.broken = taken.broken or self.broken, ""


class RunLedger:
    """Keeps the accounts of all steps. Every method is quick: it is called from all rollout workers.

    What it is told is also written to the run's files and its store, which never stop it: see ``StoreWriter``.

    Args:
        events: JSON-lines file that the display follows, in the run's folder.
        clock: seconds, of which only differences count.
        store: the run's store; None: there is none.
    """

    def __init__(self, events: str, clock: Callable[[], float] = time.monotonic, *, store: str | None = None) -> None:
        self._clock = clock
        self._run = RunFolder(Path(events).parent)
        self._events = KeptLines(Path(events))
        self._store = StoreWriter(None if store is None else Path(store))
        self._watch = StepWatch(self._run, lambda step, data: self._event("alert", step, "train", **data))
        self._spent, self._kept_seconds = Spent(time.thread_time), 0.0
        self._housekeeper = Housekeeper(self._run)
        self._write(lambda store: store.forget_after(self._run.last_checkpoint()))
        self._write(lambda store: store.set_meta(OPENED, time.time()))
        self._books: dict[tuple[int, str], _Book] = defaultdict(lambda: _Book(latest=clock()))

    def broken(self, step: int, split: str, message: str) -> None:
        """An agent loop raised: no ending of a trial, but a fault of the worker or of this project."""
        book = self._books[(step, split)]
        book.broken = book.broken or message
        self._event("broken", step, split, error=message)

    def started(self, step: int, split: str, trial: str, task: str, attempt: int, group: str = "") -> None:
        """A trial began, or began again after a fault of infrastructure.

        ``group`` is what an asynchronous run's steps are made of; a synchronous one does not need it.
        """
        book = self._touched(step, split)
        book.group[trial] = group
        if not book.submitted:
            self._write(self._catch_up)
        if trial not in book.submitted:
            book.submitted.add(trial)
            book.ledger.submit(trial)
        self._write(lambda store: store.started(step, split, trial, task, attempt))
        self._event("started", step, split, trial=trial, task=task, attempt=attempt)

    def refilled(self, step: int, split: str, trial: str, replaced: str) -> None:
        """A trial was dropped, and its group would be too small without the one that comes in its place."""
        self._touched(step, split).refilled.add(trial)
        self._write(lambda store: store.refilled(step, split, trial, replaced))
        self._event("refilled", step, split, trial=trial, replaced=replaced)

    def overdue(self, step: int, split: str, seconds: float, all_steps: bool = False) -> str:
        """What is waited for in vain: a line when no trial of a step has begun or ended for so long; else empty.

        ``all_steps``: of the trials of any step, since an asynchronous run's step waits for those of earlier ones.

        However many wait for their turn, the ones that run end within the time of one: where nothing has, a rollout
        worker or what it runs on is gone.
        """
        books = [self._books[(step, split)]]
        if all_steps:
            books = [book for (_, of), book in self._books.items() if of == split]
        if self._clock() - max(book.latest for book in books) <= seconds:
            return ""
        pending = [trial for book in books for trial in book.pending]
        waits = some(pending) if pending else "the first of its trials to begin"
        ended, begun = sum(len(book.records) for book in books), sum(len(book.submitted) for book in books)
        done = f"{ended} of {begun} trials have ended"
        return f"step {step} ({split}): nothing has happened for {seconds:.0f} s; {done}; waiting for {waits}"

    def retried(self, step: int, split: str, trial: str, outcome: str, error: str | None) -> None:
        self._touched(step, split)
        self._write(lambda store: store.retried(step, split, trial, outcome, error))
        self._event("retried", step, split, trial=trial, outcome=outcome, error=error)

    def finished(self, step: int, split: str, record: Mapping[str, Any], rows: TrialRows | None = None) -> None:
        """Take the final record of a trial (``TrialRecord`` as a dictionary).

        Args:
            rows: of its calls, for the run's store.

        Raises:
            LedgerError: for a trial that was never submitted, or that finishes twice.
        """
        trial = str(record["trial"])
        book = self._touched(step, split)
        book.ledger.finish(trial, Outcome(record["outcome"]))
        book.records[trial] = record
        self._kept_seconds += 0.0 if rows is None else rows.seconds
        self._write(lambda store: store.finished(step, split, record, rows))
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

    def close(
        self,
        step: int,
        split: str,
        min_group: int = 1,
        groups: Collection[str] | None = None,
        evicted: Mapping[str, str] | None = None,
    ) -> dict[str, Any]:
        """Decide which trials of a step are trained, and forget the step; its ``StepAccount`` as a dictionary.

        Args:
            groups: those that the step is made of; None: all of whose trials began in it.
            evicted: groups that verl's sampler took out of the step, and why. Their trials are dropped.

        Raises:
            LedgerError: when the trials do not add up.
        """
        evicted = evicted or {}
        if groups is None:
            book = self._books.pop((step, split), _Book())
        else:
            book = _Book()
            for (_, of), each in self._books.items():
                if of == split:
                    each.give({*groups, *evicted}, book)
        records = list(book.records.values())
        for record in records:
            if record["group"] in evicted:
                book.ledger.drop([str(record["trial"])], evicted[record["group"]])
        graded = [r for r in records if _graded(r)]
        of_group: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
        for record in graded:
            if record["group"] not in evicted:
                of_group[str(record["group"])].append(record)
        kept = [group for group in of_group.values() if len(group) >= min_group]
        book.ledger.train(str(record["trial"]) for group in kept for record in group)
        small = [group for group in of_group.values() if len(group) < min_group]
        book.ledger.drop((str(record["trial"]) for group in small for record in group), "small_group")
        buckets = book.ledger.check()

        account = StepAccount(step, split, **asdict(buckets))
        account.in_flight = sum(len(each.submitted) for (_, of), each in self._books.items() if of == split)
        account.evicted_groups = dict(Counter(evicted.values()))
        account.retried = sum(int(r.get("attempts", 1)) - 1 for r in records)
        account.refilled, account.waiting = len(book.refilled), book.pending[:NAMES]
        if graded:
            account.solve_rate = sum(float(r["reward"]) >= 1.0 for r in graded) / len(graded)
            account.reward = sum(float(r["reward"]) for r in graded) / len(graded)
        account.rewards = {str(record["trial"]): float(record["reward"]) for group in kept for record in group}
        account.harnesses = by_harness(records)
        account.groups = len({r["group"] for r in records} - evicted.keys())
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
        self._close_in_store(step, split, kept, small, records, evicted)
        if split == "train":
            account.monitoring = {
                "ledger": self._spent.take() + self._housekeeper.take_seconds(),
                "workers": self._kept_seconds,
            }
            self._kept_seconds = 0.0
        return asdict(account)

    def measured(self, step: int, values: Mapping[str, Any], split: str = "train", *, rows: int = 0) -> dict[str, Any]:
        """Numbers of a step for the run's store, nested or not: verl's, too, by their own names. Of a step of training
        what there is to tell of it, now that all is known: see ``StepWatch.step_closed``.

        Args:
            rows: of the table of its trials, at most.
        """
        with self._spent:
            self._write(lambda store: store.metrics(step, values, split))
            self._write(self._catch_up)
            if split != "train" or self._store.path is None:
                return {"news": [], "open": {}, "trials": []}
            found = self._watch.step_closed(step, rows=rows)
            self._write(lambda store: store.metrics(step, {"alerts": found["open"]}, split))
            return found

    def told(self, step: int, name: str, seen: str, first: str, view: str = "overview") -> None:
        """Record an alert that no rule raises: a guard that stops the run, a checkpoint that cannot be written."""
        self._watch.raise_now(step, name, Finding(seen, first, view, Severity.CRITICAL))

    def stopped(self, step: int, name: str, error: str) -> None:
        """A guard ends the run in the middle of a step: tell that, and what its trials show, which nobody will ask for
        any more."""
        if self._store.path is not None:
            self._watch.step_closed(step)
        first = "the last steps before it, and what else was told"
        self.told(step, name, f"the run stopped: {error}", first, "alignment")

    def over(self, step: int, name: str) -> None:
        """What ``told`` recorded is over."""
        self._watch.raise_now(step, name, None)

    def _close_in_store(
        self,
        step: int,
        split: str,
        kept: list[list[Mapping[str, Any]]],
        small: list[list[Mapping[str, Any]]],
        records: list[Mapping[str, Any]],
        evicted: Mapping[str, str],
    ) -> None:
        trained = [str(record["trial"]) for group in kept for record in group]
        why = {str(record["trial"]): str(record["outcome"]) for record in records}
        why |= {str(record["trial"]): evicted[record["group"]] for record in records if record["group"] in evicted}
        why |= {str(record["trial"]): "small_group" for group in small for record in group}
        why_not = {trial: reason for trial, reason in why.items() if trial not in set(trained)}
        self._write(lambda store: store.closed(step, split, trained, why_not))
        self._write(self._catch_up)
        if split == "train" and self._store.path is not None:
            self._housekeeper.step_closed(step)

    def _write(self, what: Callable[[Store], None]) -> None:
        with self._spent:
            self._store.write(what)

    def _catch_up(self, store: Store) -> None:
        catch_up(self._run, store)

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
        now = time.time()
        with self._spent:
            self._write(lambda store: store.event(kind, step, split, t=now, **values))
            self._events.append({"t": now, "event": kind, "step": step, "split": split, **values})


def _graded(record: Mapping[str, Any]) -> bool:
    return Outcome(record["outcome"]).treatment is not Treatment.DROP

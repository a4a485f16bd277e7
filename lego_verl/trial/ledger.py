"""The account in which every submitted trial ends in exactly one bucket: trained, dropped or pending.

Who submits, who finishes and who trains are different parts of the system, and each tells the ledger
what it did. So when they disagree, ``check`` can say where.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from lego_verl.trial.outcome import Outcome, Treatment


class LedgerError(RuntimeError):
    """The account does not add up; the message names the trials."""


@dataclass
class Account:
    """Where the submitted trials are. ``submitted == trained + dropped + pending``."""

    submitted: int = 0
    trained: int = 0
    dropped: int = 0
    pending: int = 0
    """Submitted and not accounted for yet: running, or finished and neither trained nor dropped."""
    outcomes: dict[str, int] = field(default_factory=dict)
    """Of all that finished."""
    dropped_why: dict[str, int] = field(default_factory=dict)
    """By outcome, or by the reason given to ``drop``."""


class Ledger:
    """One account, of a step or of an evaluation."""

    def __init__(self) -> None:
        self._submitted: dict[str, None] = {}
        self._outcomes: dict[str, Outcome] = {}
        self._trained: set[str] = set()
        self._dropped: dict[str, str] = {}

    def submit(self, trial: str) -> None:
        """``LedgerError`` when it was submitted before."""
        if trial in self._submitted:
            raise LedgerError(f"trial {trial} was submitted twice")
        self._submitted[trial] = None

    def finish(self, trial: str, outcome: Outcome) -> None:
        """A trial's final outcome. One whose treatment is ``drop`` is dropped by that."""
        if trial not in self._submitted:
            raise LedgerError(f"trial {trial} finished ({outcome}) and was never submitted")
        if trial in self._outcomes:
            raise LedgerError(f"trial {trial} finished twice: {self._outcomes[trial]}, then {outcome}")
        self._outcomes[trial] = outcome
        if outcome.treatment is Treatment.DROP:
            self._dropped.setdefault(trial, str(outcome))

    def train(self, trials: Iterable[str]) -> None:
        """These were in a batch that the policy was updated with."""
        self._trained.update(trials)

    def drop(self, trials: Iterable[str], reason: str) -> None:
        """These are left out for a reason beyond their own outcome: a group too small, too old, cancelled."""
        for trial in trials:
            self._dropped.setdefault(trial, reason)

    def account(self) -> Account:
        trained = self._trained & self._submitted.keys()
        dropped = self._dropped.keys() & self._submitted.keys() - self._trained
        return Account(
            submitted=len(self._submitted),
            trained=len(trained),
            dropped=len(dropped),
            pending=len(self._submitted) - len(trained) - len(dropped),
            outcomes=dict(Counter(str(outcome) for outcome in self._outcomes.values())),
            dropped_why=dict(Counter(self._dropped[trial] for trial in dropped)),
        )

    def check(self, *, closed: bool = False) -> Account:
        """The account, or ``LedgerError`` with all that is off.

        ``closed``: nothing may be pending any more.
        """
        faults = [
            *_named("trained, but never submitted", self._trained - self._submitted.keys()),
            *_named("dropped, but never submitted", self._dropped.keys() - self._submitted.keys()),
            *_named("both trained and dropped", self._trained & self._dropped.keys()),
            *_named("trained, but not finished", (self._trained & self._submitted.keys()) - self._outcomes.keys()),
        ]
        account = self.account()
        if closed:
            pending = [t for t in self._submitted if t not in self._trained and t not in self._dropped]
            running = [trial for trial in pending if trial not in self._outcomes]
            faults += _named("still running", running)
            faults += _named("finished, but neither trained nor dropped", set(pending) - set(running))
        if account.submitted != account.trained + account.dropped + account.pending:
            faults.append(f"{account.submitted} submitted, but {account}")
        if faults:
            raise LedgerError("the ledger does not add up: " + "; ".join(faults))
        return account


def _named(what: str, trials: Iterable[str]) -> list[str]:
    names = sorted(trials)
    if not names:
        return []
    shown = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    return [f"{what}: {shown}"]

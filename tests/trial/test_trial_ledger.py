"""Every submitted trial is in exactly one bucket, and where the parts disagree the ledger says who."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, rule

from lego_verl.trial.ledger import Ledger, LedgerError
from lego_verl.trial.outcome import Outcome, Treatment

OUTCOMES = st.sampled_from(list(Outcome))


class HonestParts(RuleBasedStateMachine):
    """Submitting, finishing, training and dropping in any honest order."""

    trials: Bundle[str] = Bundle("trials")

    def __init__(self) -> None:
        super().__init__()
        self.ledger = Ledger()
        self.bucket: dict[str, str] = {}
        self.outcome: dict[str, Outcome] = {}

    @rule(target=trials, number=st.integers(0, 10**6))
    def submit(self, number: int) -> str:
        trial = f"t{number}"
        if trial in self.bucket:
            with pytest.raises(LedgerError, match=f"trial {trial} was submitted twice"):
                self.ledger.submit(trial)
        else:
            self.ledger.submit(trial)
            self.bucket[trial] = "pending"
        return trial

    @rule(trial=trials, outcome=OUTCOMES)
    def finish(self, trial: str, outcome: Outcome) -> None:
        if trial in self.outcome:
            with pytest.raises(LedgerError, match=f"trial {trial} finished twice"):
                self.ledger.finish(trial, outcome)
            return
        self.ledger.finish(trial, outcome)
        self.outcome[trial] = outcome
        if outcome.treatment is Treatment.DROP and self.bucket[trial] == "pending":
            self.bucket[trial] = "dropped"

    @rule(trial=trials)
    def train(self, trial: str) -> None:
        if trial in self.outcome and self.bucket[trial] == "pending":
            self.ledger.train([trial])
            self.bucket[trial] = "trained"

    @rule(trial=trials)
    def drop(self, trial: str) -> None:
        if self.bucket[trial] == "pending":
            self.ledger.drop([trial], "small_group")
            self.bucket[trial] = "dropped"

    @invariant()
    def it_adds_up(self) -> None:
        account = self.ledger.check()
        count = Counter(self.bucket.values())
        assert (account.trained, account.dropped, account.pending) == (
            count["trained"],
            count["dropped"],
            count["pending"],
        )
        assert account.submitted == account.trained + account.dropped + account.pending == len(self.bucket)
        assert sum(account.outcomes.values()) == len(self.outcome)
        assert sum(account.dropped_why.values()) == account.dropped
        if count["pending"]:
            with pytest.raises(LedgerError, match=r"still running|neither trained nor dropped"):
                self.ledger.check(closed=True)
        else:
            self.ledger.check(closed=True)


TestHonestParts: Any = HonestParts.TestCase


def ledger(*finished: tuple[str, Outcome]) -> Ledger:
    made = Ledger()
    for trial, outcome in finished:
        made.submit(trial)
        made.finish(trial, outcome)
    return made


def test_what_is_off_is_named() -> None:
    made = ledger(("a", Outcome.SOLVED), ("b", Outcome.SANDBOX_LOST), ("c", Outcome.UNSOLVED))
    made.submit("d")
    made.train(["a", "b", "ghost"])
    made.drop(["phantom"], "small_group")
    with pytest.raises(LedgerError) as error:
        made.check(closed=True)
    text = str(error.value)
    assert "\n" not in text
    assert "trained, but never submitted: ghost" in text
    assert "dropped, but never submitted: phantom" in text
    assert "both trained and dropped: b" in text
    assert "still running: d" in text
    assert "finished, but neither trained nor dropped: c" in text


def test_training_on_what_still_runs_is_named() -> None:
    made = Ledger()
    made.submit("a")
    made.train(["a"])
    with pytest.raises(LedgerError, match="trained, but not finished: a"):
        made.check()


def test_a_stranger_cannot_finish() -> None:
    with pytest.raises(LedgerError, match=r"trial x finished \(solved\) and was never submitted"):
        Ledger().finish("x", Outcome.SOLVED)


def test_many_names_are_shortened() -> None:
    made = Ledger()
    for number in range(30):
        made.submit(f"t{number:02}")
    with pytest.raises(LedgerError, match="t00, t01, t02, t03, t04 and 25 more"):
        made.check(closed=True)


@given(OUTCOMES)
def test_infrastructure_is_always_dropped_and_only_what_may_be_better_is_tried_again(outcome: Outcome) -> None:
    account = ledger(("a", outcome)).account()
    assert (account.dropped == 1) == (outcome.treatment is Treatment.DROP)
    if outcome.retried:
        assert outcome.treatment is Treatment.DROP

"""The order of blame: infrastructure before budgets, budgets before the harness."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness_adapters.adapter import Ending
from lego_verl.trial.attribution import Attributed, Seen, attribute, tail
from lego_verl.trial.outcome import Outcome, Treatment
from sandbox.sandbox import ExecResult

CLEAN = ExecResult(exit_code=0, output=b"", dropped_bytes=0, timed_out=False, out_of_memory=False, seconds=1.0)
FINE = Seen(
    CLEAN,
    "finished",
    turns=3,
    answered=3,
    trainable=True,
    budget=None,
    failure="",
    captured=True,
    disk_full=False,
    seconds=60.0,
)
LATE = replace(CLEAN, exit_code=None, timed_out=True)


def blamed(seen: Seen) -> Outcome | None:
    try:
        return attribute(seen)
    except Attributed as cause:
        return cause.outcome if cause.error else None


@pytest.mark.parametrize(
    ("seen", "outcome"),
    [
        ({}, None),
        ({"ending": "gave_up"}, None),
        ({"ending": "turn_limit"}, Outcome.TURN_LIMIT),
        ({"ending": "context_overflow"}, Outcome.CONTEXT_OVERFLOW),
        ({"ending": "failed"}, Outcome.HARNESS_FAILED),
        ({"ending": "failed", "disk_full": True}, Outcome.DISK_FULL),
        # Some harnesses take a reply that was cut for an error, and end on it; one that goes on is not concerned.
        ({"ending": "failed", "cut": "token_limit"}, Outcome.TOKEN_LIMIT),
        ({"ending": "failed", "cut": "context_overflow"}, Outcome.CONTEXT_OVERFLOW),
        ({"ending": "failed", "cut": "token_limit", "disk_full": True}, Outcome.DISK_FULL),
        ({"ending": "finished", "cut": "token_limit"}, None),
        # A harness that dies of what it was told did not fail by itself.
        ({"ending": "failed", "budget": "turn_limit"}, Outcome.TURN_LIMIT),
        ({"ending": "failed", "budget": "token_limit"}, Outcome.TOKEN_LIMIT),
        ({"ending": "failed", "budget": "context_overflow"}, Outcome.CONTEXT_OVERFLOW),
        ({"ending": "failed", "budget": "policy_failed"}, Outcome.POLICY_FAILED),
        ({"ending": "finished", "budget": "policy_failed"}, Outcome.POLICY_FAILED),
        ({"captured": False, "failure": "a call was lost"}, Outcome.CAPTURE_INCOMPLETE),
        ({"captured": False, "budget": "turn_limit"}, Outcome.CAPTURE_INCOMPLETE),
        ({"turns": 0, "answered": 0}, Outcome.HARNESS_FAILED),
        ({"turns": 0, "answered": 0, "budget": "policy_failed"}, Outcome.POLICY_FAILED),
        ({"turns": 0, "answered": 0, "budget": "context_overflow"}, Outcome.HARNESS_FAILED),
        ({"turns": 0, "answered": 0, "result": LATE}, Outcome.HARNESS_FAILED),
        # Without a reply there is nothing to train, however the harness took it.
        ({"turns": 1, "answered": 0}, Outcome.HARNESS_FAILED),
        ({"turns": 1, "answered": 0, "result": LATE}, Outcome.POLICY_FAILED),
        ({"turns": 4, "result": LATE}, Outcome.TIME_LIMIT),
        ({"trainable": False}, Outcome.HARNESS_FAILED),
        ({"trainable": False, "result": LATE}, Outcome.HARNESS_FAILED),
    ],
)
def test_who_is_to_blame(seen: dict[str, Any], outcome: Outcome | None) -> None:
    assert blamed(replace(FINE, **seen)) is outcome


ENDINGS: list[Ending] = ["finished", "gave_up", "turn_limit", "context_overflow", "failed"]
RESULTS = st.builds(
    ExecResult,
    exit_code=st.sampled_from([None, 0, 1, 137]),
    output=st.binary(max_size=50),
    dropped_bytes=st.just(0),
    timed_out=st.booleans(),
    out_of_memory=st.booleans(),
    seconds=st.just(1.0),
)
SEEN = st.builds(
    Seen,
    result=RESULTS,
    ending=st.sampled_from(ENDINGS),
    turns=st.integers(0, 2),
    answered=st.integers(0, 2),
    trainable=st.booleans(),
    budget=st.sampled_from([None, "turn_limit", "token_limit", "context_overflow", "time_limit", "policy_failed"]),
    failure=st.sampled_from(["", "a reason"]),
    captured=st.booleans(),
    disk_full=st.booleans(),
    seconds=st.just(9.0),
)


@given(SEEN)
def test_only_a_whole_trial_is_ever_trained(seen: Seen) -> None:
    outcome = blamed(seen)
    trained = outcome is None or outcome.treatment is Treatment.TRAIN
    if trained:
        assert seen.captured
        assert seen.answered > 0
        assert seen.trainable
        assert seen.budget != "policy_failed"
        assert not seen.result.out_of_memory
    if trained and not seen.result.timed_out and seen.budget is None:
        assert seen.ending != "failed"


@given(st.binary(max_size=20_000))
def test_the_tail_of_an_output_is_short_and_never_empty(output: bytes) -> None:
    text = tail(replace(CLEAN, output=output))
    assert 0 < len(text) <= 1500
    assert len(text.splitlines()) <= 2000

"""The proof looks: whatever is wrong with a segment, it says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from capture_fixtures import SYSTEM, USER, Harness, call_text, results

from lego_verl.capture.proof import Proof, prove
from lego_verl.capture.segment import TrainingSegment


@pytest.fixture
def harness() -> Harness:
    harness = Harness()
    history = [SYSTEM, USER]
    for number in range(3):
        turn = harness.ask(history, call_text(f"step {number}"))
        history += [turn, *results(turn)]
    return harness


def proved(harness: Harness, change: Callable[[TrainingSegment], TrainingSegment]) -> Proof:
    capture = harness.capture
    segments = [change(segment) for segment in capture.segments()]
    return prove(segments, capture.calls, capture.splits(), capture.lost)


def put(name: str, place: int, value: float) -> Callable[[TrainingSegment], TrainingSegment]:
    def change(segment: TrainingSegment) -> TrainingSegment:
        array = getattr(segment, name).copy()
        array[place] = value
        return replace(segment, **{name: array})

    return change


def test_what_is_whole_holds(harness: Harness) -> None:
    proof = proved(harness, lambda segment: segment)
    assert proof.holds
    assert (proof.provenance, proof.context, proof.untrained) == (1.0, 1.0, {})


@pytest.mark.parametrize(
    ("change", "provenance", "context"),
    [
        (put("response_ids", 2, 99), False, False),  # another id than was sampled
        (put("logprobs", 2, -0.25), False, True),  # a log-probability of its own
        (put("logprobs", 2, 0.0), False, True),  # zero-filled
        (put("versions", 2, 7), False, True),
        (put("prompt_ids", 0, 99), True, False),  # another context than was sent
        (put("response_mask", 2, 0), False, True),  # a sampled token without loss
    ],
)
def test_one_wrong_token_is_seen(
    harness: Harness, change: Callable[[TrainingSegment], TrainingSegment], provenance: bool, context: bool
) -> None:
    proof = proved(harness, change)
    assert not proof.holds
    assert (proof.provenance == 1.0) is provenance
    assert (proof.context == 1.0) is context


def test_loss_on_context_is_seen(harness: Harness) -> None:
    (segment,) = harness.capture.segments()
    place = int(np.flatnonzero(segment.response_mask == 0)[3])
    proof = proved(harness, put("response_mask", place, 1))
    assert proof.provenance < 1.0
    assert proof.context < 1.0
    assert proof.loss_tokens == proof.sampled_tokens + 1


def test_a_changed_context_token_spoils_only_what_follows(harness: Harness) -> None:
    (segment,) = harness.capture.segments()
    place = int(np.flatnonzero(segment.response_mask == 0)[-1])
    proof = proved(harness, put("response_ids", place, 99))
    assert proof.provenance == 1.0
    assert proof.context == pytest.approx(1 - len(harness.samples[-1].ids) / proof.sampled_tokens)


def test_missing_tokens_are_counted(harness: Harness) -> None:
    def cut(segment: TrainingSegment) -> TrainingSegment:
        names = ("response_ids", "response_mask", "logprobs", "versions")
        return replace(segment, **{name: getattr(segment, name)[:-2] for name in names})

    proof = proved(harness, cut)
    assert not proof.holds
    assert proof.untrained == {"unaccounted": len(harness.samples[-1].ids)}


def test_lost_generations_are_listed_by_reason(harness: Harness) -> None:
    harness.capture.lose("closed", 5)
    harness.capture.lose("incomplete", 3)
    proof = harness.capture.proof()
    assert proof.holds
    assert proof.untrained == {"closed": 5, "incomplete": 3}
    assert proof.sampled_tokens == proof.loss_tokens + 8


def test_a_trial_without_a_call_proves_nothing_and_breaks_nothing() -> None:
    proof = Harness().capture.proof()
    assert (proof.calls, proof.loss_tokens, proof.holds) == (0, 0, True)
    assert proof.as_dict()["splits"] == {}

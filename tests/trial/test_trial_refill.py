"""A group that would become too small is given other trials, and no group more than it may have."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from hypothesis import given
from hypothesis import strategies as st

from lego_verl.trial.outcome import Outcome, Treatment
from lego_verl.trial.record import FinishedTrial, TrialRecord
from lego_verl.trial.refill import Refills, run_refilled

LOST = Outcome.SANDBOX_LOST


def ended(trial: str, outcome: Outcome) -> FinishedTrial:
    return FinishedTrial(TrialRecord(trial, "task", outcome))


async def group(
    refills: Refills, ends: Mapping[str, Outcome], names: list[str]
) -> tuple[list[FinishedTrial], set[str]]:
    """A group's trials at the same time, solved unless ``ends`` says otherwise; and the names of all that ran."""
    ran: set[str] = set()

    async def run(trial: str) -> FinishedTrial:
        ran.add(trial)
        await asyncio.sleep(0)
        return ended(trial, ends.get(trial, Outcome.SOLVED))

    async def replaces(lost: FinishedTrial, trial: str) -> bool:
        return refills.replaces("g", len(names), lost.record.outcome)

    return list(await asyncio.gather(*(run_refilled(run, name, replaces) for name in names))), ran


def kept(finished: list[FinishedTrial]) -> int:
    return sum(each.record.treatment is not Treatment.DROP for each in finished)


async def test_one_that_is_not_missed_is_not_replaced() -> None:
    finished, ran = await group(Refills(2, 9), {"a": LOST, "b": LOST}, ["a", "b", "c", "d"])
    assert (kept(finished), ran) == (2, {"a", "b", "c", "d"})


async def test_one_that_is_missed_is_replaced() -> None:
    finished, ran = await group(Refills(3, 9), {"a": LOST, "b": LOST}, ["a", "b", "c", "d"])
    assert kept(finished) == 3
    assert ran - {"a", "b", "c", "d"} in ({"a-r1"}, {"b-r1"})


async def test_a_replacement_may_be_replaced_but_not_for_ever() -> None:
    ends = {name: LOST for name in ("a", "a-r1", "a-r2", "a-r3", "a-r4")}
    finished, ran = await group(Refills(2, 3), ends, ["a", "b"])
    assert ran == {"a", "b", "a-r1", "a-r2", "a-r3"}
    assert [each.record.trial for each in finished] == ["a-r3", "b"]
    assert kept(finished) == 1


async def test_without_refills_nothing_is_replaced() -> None:
    finished, ran = await group(Refills(2, 0), {"a": LOST}, ["a", "b"])
    assert (kept(finished), ran) == (1, {"a", "b"})


async def test_what_would_end_in_the_same_way_is_not_tried_again() -> None:
    _, ran = await group(Refills(2, 9), dict.fromkeys("ab", Outcome.IMAGE_MISSING), ["a", "b"])
    assert ran == {"a", "b"}


def test_groups_do_not_share_what_they_may_have() -> None:
    refills = Refills(2, 1)
    assert [refills.replaces(name, 2, LOST) for name in ("g", "h", "g", "h")] == [True, True, False, False]


@given(st.lists(st.booleans(), min_size=1, max_size=60), st.integers(1, 8), st.integers(1, 8), st.integers(0, 10))
def test_a_group_is_kept_large_enough_while_it_may_have_others(
    fates: list[bool], size: int, min_group: int, most: int
) -> None:
    """Trials end in any order; ``fates`` says of each in turn whether it is lost."""
    refills, running, left, refilled = Refills(min_group, most), size, 0, 0
    for lost in fates:
        if not running:
            break
        if not lost:
            running, left = running - 1, left + 1
        elif refills.replaces("g", size, LOST):
            refilled += 1
        else:
            running -= 1
        assert refilled <= most
        assert left + running >= min(min_group, size) or refilled == most

"""A step's account: every trial submitted is in exactly one bucket."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lego_verl.monitor.run_folder import read_lines
from lego_verl.trial.ledger import LedgerError
from lego_verl.trial.outcome import Outcome, Treatment
from lego_verl.workers.run_ledger import RunLedger
from lego_verl.workers.step_account import StepAccount

PROOF = {
    "splits": {"first": 1},
    "calls": 2,
    "segments": 1,
    "sampled_tokens": 10,
    "loss_tokens": 10,
    "provenance": 1.0,
    "context": 1.0,
}


def record(trial: str, outcome: Outcome, reward: float | None, group: str = "g") -> dict[str, Any]:
    return {"trial": trial, "task": "t", "group": group, "outcome": outcome.value, "reward": reward, "proof": PROOF}


def ledger(tmp_path: Path) -> RunLedger:
    return RunLedger(str(tmp_path / "events.jsonl"))


def test_infrastructure_is_no_reward(tmp_path: Path) -> None:
    account = ledger(tmp_path)
    for trial, outcome, reward in (
        ("a", Outcome.SOLVED, 1.0),
        ("b", Outcome.UNSOLVED, 0.0),
        ("c", Outcome.SANDBOX_LOST, None),
    ):
        account.started(1, "train", trial, "t", 1)
        account.finished(1, "train", record(trial, outcome, reward))
    step = account.close(1, "train", min_group=2)
    assert (step["submitted"], step["trained"], step["dropped"], step["pending"]) == (3, 2, 1, 0)
    assert step["solve_rate"] == 0.5
    assert step["loss_tokens"] == 20


def test_a_group_that_lost_too_many_is_dropped(tmp_path: Path) -> None:
    account = ledger(tmp_path)
    for trial, outcome, group in (
        ("a", Outcome.SOLVED, "g"),
        ("b", Outcome.GRADER_FAILED, "g"),
        ("c", Outcome.SOLVED, "h"),
        ("d", Outcome.SOLVED, "h"),
    ):
        account.started(1, "train", trial, "t", 1)
        account.finished(1, "train", record(trial, outcome, 1.0 if outcome is Outcome.SOLVED else None, group))
    step = account.close(1, "train", min_group=2)
    assert (step["trained"], step["dropped"], step["small_groups"], step["zero_variance_groups"]) == (2, 2, 1, 1)


def test_a_trial_ends_once_and_only_if_it_began(tmp_path: Path) -> None:
    account = ledger(tmp_path)
    with pytest.raises(LedgerError, match="never submitted"):
        account.finished(1, "train", record("a", Outcome.SOLVED, 1.0))
    account.started(1, "train", "a", "t", 1)
    account.finished(1, "train", record("a", Outcome.SOLVED, 1.0))
    with pytest.raises(LedgerError, match="twice"):
        account.finished(1, "train", record("a", Outcome.SOLVED, 1.0))


@given(
    st.lists(st.tuples(st.sampled_from(list(Outcome)), st.integers(0, 3), st.booleans()), max_size=30),
    st.integers(1, 4),
)
def test_submitted_is_trained_and_dropped_and_pending(
    tmp_path_factory: pytest.TempPathFactory, trials: list[tuple[Outcome, int, bool]], min_group: int
) -> None:
    account = ledger(tmp_path_factory.mktemp("ledger"))
    for number, (outcome, group, ended) in enumerate(trials):
        account.started(4, "train", str(number), "t", 1)
        if ended:
            reward = None if outcome.treatment is Treatment.DROP else float(outcome is Outcome.SOLVED)
            account.finished(4, "train", record(str(number), outcome, reward, group=str(group)))
    step = account.close(4, "train", min_group=min_group)
    assert step["submitted"] == len(trials) == step["trained"] + step["dropped"] + step["pending"]
    assert sum(step["outcomes"].values()) == step["trained"] + step["dropped"]
    assert sum(step["dropped_why"].values()) == step["dropped"]


def test_events_are_written_as_they_happen(tmp_path: Path) -> None:
    account = ledger(tmp_path)
    account.started(1, "train", "a", "t", 1)
    assert [event["event"] for event in read_lines(tmp_path / "events.jsonl")] == ["started"]


def finish(account: RunLedger, *trials: tuple[str, Outcome, str]) -> None:
    for trial, outcome, group in trials:
        account.started(1, "train", trial, "t", 1)
        reward = None if outcome.treatment is Treatment.DROP else float(outcome is Outcome.SOLVED)
        account.finished(1, "train", {**record(trial, outcome, reward, group), "error": f"why\n  {trial} went"})


def closed(account: RunLedger, min_group: int = 2) -> StepAccount:
    return StepAccount(**account.close(1, "train", min_group=min_group))


def test_too_few_that_can_be_trained_are_an_error_that_names_the_cause(tmp_path: Path) -> None:
    account = ledger(tmp_path)
    lost = [(f"l{number}", Outcome.SANDBOX_LOST, "h") for number in range(5)]
    finish(account, ("a", Outcome.SOLVED, "g"), ("b", Outcome.UNSOLVED, "g"), ("c", Outcome.SOLVED, "h"), *lost)
    step = closed(account)
    step.check(min_trained=0.25)
    step.check()
    with pytest.raises(LedgerError) as error:
        step.check(min_trained=0.3)
    assert str(error.value) == (
        "step 1 (train): 2 of 8 trials can be trained, and lego.guard.min_trained=0.3 wants 3; "
        "dropped: sandbox_lost 5, small_group 1; sandbox_lost: why l0 went"
    )


def test_a_step_of_which_nothing_is_left_is_an_error_whatever_is_asked_for(tmp_path: Path) -> None:
    account = ledger(tmp_path)
    finish(account, ("a", Outcome.POLICY_FAILED, "g"))
    with pytest.raises(LedgerError, match=r"0 of 1 trials can be trained.*wants 1; dropped: policy_failed 1; policy_f"):
        closed(account).check(min_trained=0.0)


def test_a_trial_without_an_ending_is_named(tmp_path: Path) -> None:
    account = ledger(tmp_path)
    finish(account, ("a", Outcome.SOLVED, "g"), ("b", Outcome.SOLVED, "g"))
    account.started(1, "train", "c", "t", 1)
    account.broken(1, "train", "OSError: no\nroom")
    with pytest.raises(LedgerError, match=r"1 without an ending \(c\); rollout worker: OSError: no room$"):
        closed(account).check()


def test_a_replacement_is_a_trial_of_its_own(tmp_path: Path) -> None:
    account = ledger(tmp_path)
    finish(account, ("a", Outcome.SANDBOX_LOST, "g"), ("b", Outcome.SOLVED, "g"))
    account.refilled(1, "train", "a-r1", "a")
    finish(account, ("a-r1", Outcome.UNSOLVED, "g"))
    step = closed(account)
    assert (step.submitted, step.trained, step.dropped, step.refilled, step.small_groups) == (3, 2, 1, 1, 0)


def test_what_is_waited_for_in_vain_is_named(tmp_path: Path) -> None:
    now = [100.0]
    account = RunLedger(str(tmp_path / "events.jsonl"), clock=lambda: now[0])
    assert account.overdue(1, "train", 60.0) == ""
    now[0] += 61
    assert "0 of 0 trials have ended; waiting for the first of its trials to begin" in account.overdue(1, "train", 60.0)
    finish(account, ("a", Outcome.SOLVED, "g"))
    for number in range(7):
        account.started(1, "train", f"t{number}", "t", 1)
    now[0] += 60
    assert account.overdue(1, "train", 60.0) == ""
    account.retried(1, "train", "t0", "sandbox_lost", None)
    now[0] += 60
    assert account.overdue(1, "train", 60.0) == ""
    now[0] += 1
    assert account.overdue(1, "train", 60.0) == (
        "step 1 (train): nothing has happened for 60 s; 1 of 8 trials have ended; "
        "waiting for t0, t1, t2, t3, t4 and 2 more"
    )


def test_what_broke_a_worker_is_told_with_the_account(tmp_path: Path) -> None:
    account = ledger(tmp_path)
    account.started(2, "train", "a", "t", 1)
    account.broken(2, "train", "SandboxUnavailable: no bwrap on this node")
    assert account.close(2, "train")["errors"] == {"rollout worker": "SandboxUnavailable: no bwrap on this node"}
    assert account.close(2, "train")["errors"] == {}

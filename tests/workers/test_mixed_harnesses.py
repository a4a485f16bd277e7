"""A mix in a rollout worker: a group's trials are of one harness, harnesses share a worker, and each is counted."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness_adapters.registry import load_adapter
from lego_verl.config import LegoConfig, RunConfig
from lego_verl.harness_mix import Harnesses
from lego_verl.trial.from_recipe import open_benches
from lego_verl.trial.outcome import Outcome
from lego_verl.workers.by_harness import by_harness
from lego_verl.workers.run_ledger import RunLedger

NAMES = ("mini_swe_agent", "codex", "opencode")


def benches() -> dict[str, Any]:
    adapters = {name: load_adapter(name) for name in NAMES}
    backend: Any = SimpleNamespace(scratch="scratch")
    return open_benches(LegoConfig(), "run", backend, "server", adapters, dict.fromkeys(NAMES, "built"))  # type: ignore


def test_benches_differ_in_their_harness_alone() -> None:
    made = benches()
    assert [bench.adapter.name for bench in made.values()] == list(NAMES)
    for shared in ("backend", "server", "slots", "starts", "baselines", "scratch"):
        assert len({id(getattr(bench, shared)) for bench in made.values()}) == 1, shared


@pytest.fixture
def host() -> Any:
    """A worker's host, without a worker."""
    module = pytest.importorskip("lego_verl.workers.host", reason="the extra cpu is not installed")
    harnesses = Harnesses({name: load_adapter(name) for name in NAMES}, dict.fromkeys(NAMES, 1.0))
    nothing = dict.fromkeys(("run", "limits", "renderer", "parser", "ledger", "refills"))
    return module.TrialHost(lego=LegoConfig(run=RunConfig(seed=3)), harnesses=harnesses, benches=benches(), **nothing)


def test_the_trials_of_a_task_in_a_step_are_of_one_harness(host: Any) -> None:
    for task in ("dairy", "tannery"):
        assert len({host.bench(4, "train", task).adapter.name for _ in range(6)}) == 1
    assert {host.bench(step, "train", "dairy").adapter.name for step in range(1, 30)} == set(NAMES)


def test_a_held_out_task_stays_with_its_harness(host: Any) -> None:
    for task in ("dairy", "tannery", "apiary"):
        assert len({host.bench(step, "heldout", task).adapter.name for step in range(30)}) == 1
    assert {host.bench(0, "heldout", f"task {number}").adapter.name for number in range(40)} == set(NAMES)


def record(trial: str, harness: str, outcome: Outcome, reward: float | None, group: str) -> dict[str, Any]:
    proof = {"splits": {}, "calls": 1, "segments": 1, "sampled_tokens": 5, "loss_tokens": 5, "provenance": 1.0}
    return {
        **{"trial": trial, "task": "t", "group": group, "harness": harness, "outcome": outcome.value},
        **{"reward": reward, "calls": 3, "sampled_tokens": 50, "proof": {**proof, "context": 1.0}},
    }


RECORDS = [
    record("a", "one", Outcome.SOLVED, 1.0, "g"),
    record("b", "one", Outcome.UNSOLVED, 0.0, "g"),
    record("c", "two", Outcome.TURN_LIMIT, 1.0, "h"),
    record("d", "two", Outcome.SANDBOX_LOST, None, "h"),
    record("e", "three", Outcome.HARNESS_FAILED, None, "i"),
]


def test_each_harness_is_counted_by_itself() -> None:
    assert by_harness(RECORDS) == {
        "one": {"trials": 2, "dropped": 0, "groups": 1, "solve_rate": 0.5, "reward": 0.5, **PER_TRIAL},
        "three": {"trials": 1, "dropped": 1, "groups": 1},
        "two": {"trials": 2, "dropped": 1, "groups": 1, "solve_rate": 1.0, "reward": 1.0, **PER_TRIAL},
    }


PER_TRIAL = {"calls": 3.0, "sampled_tokens": 50.0}


def test_a_steps_account_has_them(tmp_path: Path) -> None:
    ledger = RunLedger(str(tmp_path / "events.jsonl"))
    for each in RECORDS:
        ledger.started(1, "train", each["trial"], "t", 1)
        ledger.finished(1, "train", each)
    account = ledger.close(1, "train")
    assert account["harnesses"] == by_harness(RECORDS)
    assert sum(counts["trials"] for counts in account["harnesses"].values()) == account["submitted"] == 5
    assert '"harness":"two"' in (tmp_path / "events.jsonl").read_text()

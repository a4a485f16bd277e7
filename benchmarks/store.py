"""How quick the run store is when a run is long: writes a store of many trials as a run would have left it, and times
every view's query beside a plain scan of its table by SQLite itself, in the same run.

    python benchmarks/store.py --trials 100000 --calls 40 --out /tmp/store.sqlite

Prints the file's size, what one trial's record cost to write, and of each query the 50th and 95th percentile over
``--times`` calls, each on a new connection, as a page opens it, and how much of it the processor worked: on a machine
that others use, too, the difference is their doing. Exits with 1 if one's 95th percentile is over
``--limit``. The store is made once and used again where it is there.
"""

from __future__ import annotations

import argparse
import json
import random
import sqlite3
import statistics
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from lego_verl.monitor import queries
from lego_verl.monitor.alerts import Watched, evidence, look
from lego_verl.monitor.behaviour.count import Counts
from lego_verl.monitor.store import Store
from lego_verl.monitor.store_rows import TrialRows
from lego_verl.monitor.trial_table import trial_table

_OUTCOMES = ("solved", "unsolved", "unsolved", "turn_limit", "no_patch", "gave_up", "sandbox_failed", "grader_failed")
_DROPPED = ("sandbox_failed", "grader_failed")
_ACTS = ("read", "search", "edit", "test", "run", "edit search", "read read", "")
_GROUP, _GROUPS_A_STEP, _TASKS = 8, 64, 500
_HELDOUT_EVERY, _HELDOUT = 20, 100
_METRICS = 120


def record(
    rng: random.Random, trial: str, task: str, group: str, step: int, calls: int, solve: float
) -> dict[str, Any]:
    """A trial's record, as ``TrialRecord.as_dict`` gives it."""
    outcome = "solved" if rng.random() < solve else rng.choice(_OUTCOMES[1:])
    dropped = outcome in _DROPPED
    tokens = calls * 300
    seconds = {phase: rng.random() * 60 for phase in ("queued", "start", "harness", "generation", "patch", "grading")}
    proof = {"loss_tokens": tokens, "provenance": 1.0, "context": 1.0, "untrained": {}}
    return {
        "trial": trial,
        "task": task,
        "group": group,
        "harness": ("mini_swe_agent", "openhands")[zlib.crc32(group.encode()) % 2],
        "outcome": outcome,
        "treatment": "drop" if dropped else "train",
        "reward": None if dropped else float(outcome == "solved"),
        "error": "the sandbox was lost: connection reset" if dropped else "",
        "seconds": {**seconds, "total": sum(seconds.values())},
        "calls": calls,
        "segments": 2,
        "sampled_tokens": tokens,
        "proof": proof,
        "versions": {"lego_verl": "0.1.0", "task": f"{step:064x}", "weights_first": step - 1, "weights_last": step - 1},
    }


def rows(rng: random.Random, calls: int) -> TrialRows:
    """The rows of a trial's calls."""
    made = [
        (
            i,
            0,
            "main",
            2000 + 400 * i,
            300,
            "stop",
            3.2,
            1,
            -0.4,
            1200,
            600,
            1,
            0,
            rng.choice(_ACTS),
            f"cat src/file_{i}.py",
        )
        for i in range(calls)
    ]
    counts = Counts(turns=calls, characters=1200 * calls, thinking_characters=600 * calls, tool_calls=calls)
    counts.reads, counts.edits, counts.tests, counts.tested = calls // 3, calls // 4, calls // 8, 1
    counts.files_edited, counts.edited_after_reading, counts.edited_and_checked = (
        3,
        rng.randint(0, 3),
        rng.randint(0, 3),
    )
    counts.last_act = rng.choice(("submit", "text", "test", "edit"))
    segments = [
        (0, "first", calls, 2000, 16000, 300 * calls, 1, 1, 1),
        (1, "side_call", 1, None, None, None, None, None, 0),
    ]
    return TrialRows(made, segments, counts.as_dict())


def generate(path: Path, trials: int, calls: int) -> float:
    """Write a store of ``trials`` trials through the run's own writer; the milliseconds that one took."""
    rng = random.Random(1)
    step = written = 0
    spent = 0.0
    with Store(path) as store:
        store.connection.execute("PRAGMA wal_autocheckpoint = 20000")
        while written < trials:
            step += 1
            solve = 0.2 + 0.5 * min(step / 150, 1.0)
            groups = [("train", f"task-{rng.randrange(_TASKS)}", f"{step}-{g}", _GROUP) for g in range(_GROUPS_A_STEP)]
            if step % _HELDOUT_EVERY == 0:
                groups += [("heldout", f"held-{i}", f"{step}-h{i}", 1) for i in range(_HELDOUT)]
            began = time.perf_counter()
            for split, task, group, members in groups:
                for member in range(members):
                    name = f"{task}-{group}-{member}"
                    store.started(step, split, name, task, 1, t=step * 600.0)
                    made = record(rng, name, task, group, step, calls, solve)
                    store.finished(step, split, made, rows(rng, calls), t=step * 600.0 + 300)
                    store.event("finished", step, split, trial=name, outcome=made["outcome"])
                    written += 1
            spent += time.perf_counter() - began
            names = [name for (name,) in store.connection.execute("SELECT trial FROM trials WHERE step = ?", (step,))]
            store.closed(step, "train", names, {})
            store.closed(step, "heldout", (), {})
            store.metrics(step, {f"verl/group_{i % 7}/metric_{i}": rng.random() for i in range(_METRICS)})
            numbers = {"seconds": 600.0, "pearson": 0.9999, "entropy": 0.7, "solve_rate": solve}
            phases = {f"step/{name}": 60.0 for name in ("gen", "old_log_prob", "adv", "update_actor", "update_weights")}
            store.metrics(step, {**numbers, "alignment": {"overall": {"pearson": 1.0}}, "seconds_by_phase": phases})
            print(f"\rstep {step}, {written} trials", end="", file=sys.stderr)
        # The step that is under way: nothing of it is summed yet.
        for member in range(_GROUPS_A_STEP * _GROUP // 2):
            name = f"now-{member}"
            store.started(step + 1, "train", name, f"task-{member % 40}", 1, t=step * 600.0)
            if member % 2:
                store.finished(
                    step + 1, "train", record(rng, name, "task-1", str(member // 8), step + 1, calls, 0.5), None
                )
    print(file=sys.stderr)
    return 1000 * spent / written


def views(step: int, trial: str) -> dict[str, Callable[[sqlite3.Connection], Any]]:
    """What each view asks, on opening and on the clicks that follow."""
    return {
        "overview": lambda db: queries.overview(db, total_steps=step * 2),
        "learning": queries.learning,
        "learning by harness": lambda db: queries.learning(db, by_harness=True),
        "learning curves": lambda db: queries.curves(db, ("entropy", "pearson", "verl/")),
        "metric names": queries.metric_names,
        "outcomes": queries.outcomes,
        "outcomes: where they end": queries.where_they_end,
        "outcomes: trials of one": lambda db: queries.trials(db, outcome="sandbox_failed"),
        "outcomes: trials of a step": lambda db: queries.trials(db, step=step // 2, split="train"),
        "tasks grid": queries.tasks,
        "behaviour": queries.behaviour,
        "behaviour of a cohort": lambda db: queries.behaviour(db, tasks=queries.cohort(db)),
        "behaviour trends": queries.trends,
        "alignment": queries.alignment,
        "time": queries.times,
        "trial": lambda db: queries.trial(db, trial),
        "compare: steps": lambda db: [queries.side(db, last_step=20), queries.side(db, first_step=step - 20)],
        "compare: harnesses": lambda db: [queries.side(db, harness=h) for h in ("mini_swe_agent", "openhands")],
        "compare: a task's trials": lambda db: queries.trials_of_task(db, "task-7"),
        "events": lambda db: queries.events(db, limit=200),
        "alerts: all rules after a step": lambda db: look(evidence(db, step), Watched()),
        "alerts: table of a step's trials": lambda db: trial_table(db, step, run="run", rows=64),
    }


SCANS = {
    "SQLite's scan of trials": "SELECT count(*), sum(total_seconds) FROM trials",
    "SQLite's scan of behaviour": "SELECT count(*), sum(patch_lines) FROM behaviour",
    "SQLite's scan of group_sums": "SELECT count(*), sum(patch_lines) FROM group_sums",
}


def timed(path: Path, ask: Callable[[sqlite3.Connection], Any], times: int) -> tuple[float, float, float]:
    """Milliseconds at the 50th and 95th percentile, and those of the processor at the 95th."""
    spent, worked = [], []
    for _ in range(times):
        with queries.read_store(path) as db:
            began, worked_before = time.perf_counter(), time.process_time()
            ask(db)
            spent.append(1000 * (time.perf_counter() - began))
            worked.append(1000 * (time.process_time() - worked_before))
    high = min(round(0.95 * times), times - 1)
    return statistics.median(spent), sorted(spent)[high], sorted(worked)[high]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, default=100_000)
    parser.add_argument("--calls", type=int, default=40)
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--limit", type=float, default=300.0, help="milliseconds")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        path = given.out or Path(folder) / "store.sqlite"
        if not path.exists():
            print(f"one trial, written: {generate(path, given.trials, given.calls):.2f} ms")
        with queries.read_store(path) as db:
            count, step = db.execute("SELECT count(*), max(step) FROM trials").fetchone()
            calls = db.execute("SELECT count(*) FROM calls").fetchone()[0]
            one = db.execute("SELECT trial FROM trials WHERE step = ? AND calls > 0 LIMIT 1", (step // 2,)).fetchone()[
                0
            ]
        print(f"{count} trials, {calls} calls, {step} steps, {path.stat().st_size / 2**20:.0f} MiB")
        asked = views(step, one) | {name: lambda db, q=query: db.execute(q).fetchone() for name, query in SCANS.items()}
        print(f"{'':32} {'median':>11} {'95th':>11} {'of it CPU':>11}")
        slow = []
        for name, ask in asked.items():
            middle, high, worked = timed(path, ask, given.times)
            print(f"{name:32} {middle:8.1f} ms {high:8.1f} ms {worked:8.1f} ms")
            if high > given.limit and name not in SCANS:
                slow.append(name)
        print(json.dumps({"over the limit": slow}))
    return 1 if slow else 0


if __name__ == "__main__":
    sys.exit(main())

"""The run that the dashboard's tests look at."""

from __future__ import annotations

import time
from pathlib import Path

from monitor_run import make_run, record, rows

from lego_verl.monitor.run_folder import RunFolder, append_line
from lego_verl.monitor.store import Store
from lego_verl.monitor.store_index import index_run
from lego_verl.trial.outcome import Outcome

STEPS = 4
RUNNING = "task1-5-0"
ALERT = "The solve rate fell from 0.50 to 0.10 within five steps."


def dashboard_run(folder: Path) -> RunFolder:
    """Four steps of three groups; held-out trials at steps 0 and 4; one trial runs; an alert."""
    run = make_run(folder, steps=STEPS, tasks=3, members=3)
    for step in (0, STEPS):
        append_line(run.heldout, {"step": step, "solve_rate": 0.5, "outcomes": {"solved": 1, "unsolved": 1}})
    index_run(run)
    with Store(run.store) as store:
        for step in (0, STEPS):
            for name, outcome in (("h0", Outcome.SOLVED), ("h1", Outcome.UNSOLVED)):
                store.finished(step, "heldout", record(name, outcome, task=f"held-{name}"), rows())
        store.finished(STEPS, "train", record("other-4-0", task="task0", harness="openhands"), rows())
        store.event("alert", STEPS, "train", name="solve_rate", message=ALERT, look="#/run/x/learning", state="open")
        start(store, RUNNING, STEPS + 1)
        for name in ("entropy", "reward", "seconds_by_phase/step/gen", "seconds_by_phase/step/update_actor"):
            for step in range(1, STEPS + 1):
                store.metrics(step, {name: 2.0 + step})
    return run


def start(store: Store, trial: str, step: int) -> None:
    store.started(step, "train", trial, "task1", 1, t=time.time())
    store.event("started", step, "train", trial=trial, task="task1")

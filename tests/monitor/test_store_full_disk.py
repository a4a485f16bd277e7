"""A disk that is full stops the store, loudly, and nothing else; afterwards it can be made whole."""

from __future__ import annotations

from pathlib import Path

from small_disk import FILL, with_small_disk

RUN = (
    FILL
    + """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from monitor_run import make_run, record, rows
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.workers.run_ledger import RunLedger
from lego_verl.monitor.store import Store
from lego_verl.monitor.store_index import index_run, needs_index
from lego_verl.trial.outcome import Outcome
import lego_verl.monitor.store_writer as writer

writer._PAUSE_SECONDS = 0.0
run = RunFolder(Path(sys.argv[1]))
ledger = RunLedger(str(run.events), store=str(run.store))
def step(number, trials=4):
    for trial in range(trials):
        name = f"{number}-{trial}"
        ledger.started(number, "train", name, "task", 1)
        ledger.finished(number, "train", record(name, group=str(number)), rows(40))
    return ledger.close(number, "train", min_group=2)["trained"]
print("before", step(1))
ballast = fill(run.path)
print("full", [step(number) for number in range(2, 12)])
ballast.unlink()
print("after", step(12))
with Store(run.store) as store:
    there = store.connection.execute("SELECT count(*) FROM trials WHERE state = 'finished'").fetchone()[0]
    whole = store.connection.execute("PRAGMA integrity_check").fetchone()[0]
print("there", there, whole, "needs index", needs_index(run))
"""
)


def test_a_full_disk_stops_nothing_but_the_store(tmp_path: Path) -> None:
    done = with_small_disk(tmp_path, "-c", RUN, str(tmp_path), str(Path(__file__).parent), size=1 << 20)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    # The ledger answers as ever: every trial counts.
    assert lines[:3] == ["before 4", f"full {[4] * 10}", "after 4"]
    there, whole = int(lines[3].split()[1]), lines[3].split()[2]
    assert 8 <= there < 48, lines[3]
    assert whole == "ok"
    assert "needs index True" in lines[3]
    # Once when it begins, once when it is over: not a line a record.
    assert 1 <= done.stderr.count("cannot be written: database or disk is full") <= 3, done.stderr
    assert done.stderr.count("is written again; ") >= 1, done.stderr

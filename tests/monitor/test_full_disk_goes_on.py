"""On a disk that is full a run goes on, says so, and afterwards nothing of its lines is missing."""

from __future__ import annotations

from pathlib import Path

from small_disk import FILL, with_small_disk

RUN = (
    FILL
    + """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[2])
from monitor_run import record, rows
from lego_verl.monitor.clock_watch import ClockWatch
from lego_verl.monitor.kept_lines import KeptLines
from lego_verl.monitor.run_folder import RunFolder, read_lines
from lego_verl.workers.checkpoints import CheckpointError, Checkpoints
from lego_verl.workers.run_ledger import RunLedger
import lego_verl.monitor.store_writer as writer

writer._PAUSE_SECONDS = 0.0
run = RunFolder(Path(sys.argv[1]))
run.checkpoints.mkdir()
ledger = RunLedger(str(run.events), store=str(run.store))
metrics, watch = KeptLines(run.metrics), ClockWatch(run, every=0.0)
checkpoints = Checkpoints(
    run, 3, lambda step, *seen: ledger.told(step, "checkpoint", *seen), lambda step: ledger.over(step, "checkpoint")
)

def save(step):
    folder = run.checkpoints / f"global_step_{step}"
    folder.mkdir()
    (folder / "model.pt").write_bytes(bytes(100_000))
    (run.checkpoints / "latest_checkpointed_iteration.txt").write_text(str(step))

def step(number):
    for trial in range(4):
        ledger.started(number, "train", f"{number}-{trial}", "task", 1)
        ledger.finished(number, "train", record(f"{number}-{trial}", group=str(number)), rows(4))
    account = ledger.close(number, "train", min_group=2)
    checkpoints.save(number, lambda: save(number), last=False)
    metrics.append({"step": number, "seconds": 1.0})
    ledger.measured(number, {"actor/entropy": 0.5}, rows=5)
    return account["trained"], [each["name"] for each in watch.look(number)]

print("before", step(1))
ballast = fill(run.path)
print("full", [step(number) for number in range(2, 5)])
print("checkpoint", run.last_checkpoint(), checkpoints.owed, sorted(path.name for path in run.checkpoints.iterdir()))
try:
    step(5)
except CheckpointError as error:
    print("stops", error)
ballast.unlink()
print("after", step(6), run.last_checkpoint())
print("metrics", [line["step"] for line in read_lines(run.metrics)])
events = [line for line in read_lines(run.events)]
alerts = [f"{line['name']} {line['state']}" for line in events if line["event"] == "alert"]
print("events", sum(line["event"] == "finished" for line in events), alerts)
"""
)


def test_a_full_disk_stops_nothing_but_the_store_and_at_last_the_run(tmp_path: Path) -> None:
    done = with_small_disk(tmp_path, "-c", RUN, str(tmp_path), str(Path(__file__).parent), size=2 << 20)
    assert done.returncode == 0, done.stderr
    told = dict(line.split(" ", 1) for line in done.stdout.splitlines())
    assert told["before"] == "(4, [])"
    assert told["full"] == "[(4, ['disk']), (4, []), (4, [])]", "every trial counts, and the disk is told once"
    assert told["checkpoint"] == "1 True ['global_step_1', 'latest_checkpointed_iteration.txt']"
    assert "the checkpoint of step 5 cannot be written, and none could since step 2" in told["stops"]
    assert "the last good one is of step 1" in told["stops"]
    assert told["after"].startswith("(4, "), told["after"]
    assert told["after"].endswith(" 6")
    assert told["metrics"] == "[1, 2, 3, 4, 6]", "the step that stopped has none"
    assert told["events"].startswith("24 ")
    for alert in ("'disk open'", "'checkpoint open'", "'checkpoint closed'"):
        assert told["events"].count(alert) == 1, told["events"]
    # Once, as it begins and as it is over; a removed checkpoint may make room in between.
    assert done.stderr.count("events.jsonl cannot be written: No space left on device") in (1, 2), done.stderr
    assert "events.jsonl is written again" in done.stderr
    assert done.stderr.count("RUN STORE: ") >= 1

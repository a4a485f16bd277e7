"""Runs made of a task of one line, patches, and records that tell the truth or do not."""

from __future__ import annotations

import json
from pathlib import Path

from lego_verl.monitor.run_folder import RunFolder, append_line
from lego_verl.run_tasks import write_dataset
from lego_verl.tasks.harbor import read_task
from lego_verl.tasks.harbor_writer import TaskFiles, write_task
from lego_verl.tasks.task import Task
from lego_verl.trial.outcome import Outcome, Treatment
from lego_verl.trial.record import TrialRecord

RECIPE = (
    "lego: {sandbox: {backend: local, slots: 2, memory_mb: 256, processes: 64, disk_mb: 32}, "
    "trial: {grading_seconds: 20.0}, of_another_version: true}\n"
)
TEST = b"""#!/bin/bash
if grep -q mended answer.txt; then echo 1; else echo 0; fi >/logs/verifier/reward.txt
"""
NO_VERDICT = b"#!/bin/bash\necho the tests did not run\n"


def patch_to(word: str, path: str = "answer.txt") -> bytes:
    return f"diff --git a/{path} b/{path}\n--- a/{path}\n+++ b/{path}\n@@ -1 +1 @@\n-broken\n+{word}\n".encode()


MENDED, WRONG = patch_to("mended"), patch_to("still wrong")


def make_task(folder: Path, test: bytes = TEST) -> Task:
    """Mend ``answer.txt``: write "mended" into it."""
    environment = {
        "Dockerfile": b"FROM scratch\nWORKDIR /testbed\nCOPY repo/ /testbed/\n",
        "repo/answer.txt": b"broken\n",
    }
    write_task(folder, TaskFiles("Write mended into answer.txt.", environment, {"test.sh": test}))
    return read_task(folder)


def make_run(folder: Path, *tasks: Task) -> RunFolder:
    run = RunFolder(folder)
    run.create()
    run.recipe.write_text(RECIPE)
    write_dataset(run.path / "train.parquet", list(tasks), "train")
    return run


def add_trial(
    run: RunFolder, name: str, task: Task, patch: bytes, outcome: Outcome, reward: float | None = None, step: int = 1
) -> Path:
    """A finished trial; its reward is that of a solved one unless it is said or dropped."""
    if reward is None and outcome.treatment is not Treatment.DROP:
        reward = float(outcome is Outcome.SOLVED)
    folder = run.trial(step, name)
    folder.mkdir(parents=True)
    (folder / "patch.diff").write_bytes(patch)
    record = TrialRecord(name, task.name, outcome, reward=reward, versions={"task": task.digest})
    (folder / "trial.json").write_text(json.dumps(record.as_dict()))
    append_line(run.events, {"event": "finished", "step": step, "split": "train", "trial": name})
    return folder


def contents(folder: Path) -> dict[str, bytes]:
    """Every file below a folder."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

"""``python -m lego_verl.regrade``, from its arguments to its exit code."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from regrade_helpers import MENDED, WRONG, add_trial, make_run, make_task

from lego_verl.monitor.run_folder import RunFolder, read_lines
from lego_verl.regrade.__main__ import main
from lego_verl.tasks.task import Task
from lego_verl.trial.outcome import Outcome
from sandbox.orphans import identity, sandbox_processes
from sandbox.scratch import Scratch

ROOT = Path(__file__).parents[2]


def test_what_changed_is_a_table_and_an_exit_code(
    run: RunFolder, task: Task, capsys: pytest.CaptureFixture[str]
) -> None:
    add_trial(run, "honest-0", task, MENDED, Outcome.SOLVED)
    add_trial(run, "liar-0", task, WRONG, Outcome.SOLVED, step=2)
    assert main([str(run.path), "--step", "1"]) == 0
    out = capsys.readouterr().out
    assert "1 trials: 1 the same, 0 changed" in out
    assert "liar-0" not in out
    assert main([str(run.path), "--jobs", "1"]) == 1
    out = capsys.readouterr().out
    assert "2 trials: 1 the same, 1 changed" in out
    assert ["2", "liar-0", "mend", "solved", "1", "unsolved", "0"] in [line.split() for line in out.splitlines()]
    assert len(list(read_lines(run.path / "regrade.jsonl"))) == 3


def test_one_trial_by_its_name_and_by_its_folder(
    run: RunFolder, task: Task, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = add_trial(run, "one", task, b"", Outcome.NO_PATCH)
    add_trial(run, "other", task, b"", Outcome.SOLVED)
    assert main([str(run.path), "--trial", "one"]) == 0
    assert main([str(folder)]) == 0
    assert [line["trial"] for line in read_lines(run.path / "regrade.jsonl")] == ["one", "one"]


def test_a_trial_that_stands_by_itself(
    open_tmp: Path, task: Task, run: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    """As ``lego_verl.trial`` leaves it: no recipe, no dataset, its task under ``tasks``."""
    alone = open_tmp / "alone"
    shutil.copytree(add_trial(run, "t", task, MENDED, Outcome.UNSOLVED), alone)
    make_task(alone / "tasks/train/mend")
    assert main([str(alone), "--backend", "local"]) == 1
    assert [line["outcome"] for line in read_lines(alone / "regrade.jsonl")] == ["solved"]


def test_a_fault_of_the_machine_is_told_by_its_own_exit_code(
    run: RunFolder, task: Task, capsys: pytest.CaptureFixture[str]
) -> None:
    add_trial(run, "t", task, MENDED, Outcome.SOLVED)
    shutil.rmtree(task.folder)
    assert main([str(run.path)]) == 3
    out = capsys.readouterr().out
    assert "no verdict" in out
    assert "1 trials: 0 the same, 0 changed, 1 without a verdict now" in out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["nowhere"], "there is no such folder"),
        (["{run}", "--step", "7"], "its steps are 1 to 1"),
        (["{run}", "--trial", "nobody"], "no such trial"),
        (["{run}", "--jobs", "0"], "not a number above 0"),
        (["{run}", "--backend", "moon"], "invalid choice"),
        (["{run}", "--step", "1", "--trial", "t"], "not allowed with"),
        (["{run}", "--tasks", "/nowhere"], "there is no such folder"),
    ],
)
def test_a_wrong_argument(
    run: RunFolder, task: Task, arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    add_trial(run, "t", task, b"", Outcome.NO_PATCH)
    try:
        code = main([each.format(run=run.path) for each in arguments])
    except SystemExit as error:
        code = int(error.code or 0)
    assert code == 2
    assert says in capsys.readouterr().err


@pytest.mark.parametrize("recipe", ["lego: {sandbox: {memory_mb: much}}\n", "lego: [\n", "- a\n"])
def test_a_recipe_that_cannot_be_used(
    run: RunFolder, task: Task, recipe: str, capsys: pytest.CaptureFixture[str]
) -> None:
    add_trial(run, "t", task, b"", Outcome.NO_PATCH)
    run.recipe.write_text(recipe)
    assert main([str(run.path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("lego_verl: ")
    assert error.count("\n") == 1


def test_a_dataset_that_is_none(run: RunFolder, task: Task, capsys: pytest.CaptureFixture[str]) -> None:
    add_trial(run, "t", task, b"", Outcome.NO_PATCH)
    (run.path / "train.parquet").write_bytes(b"PAR1 and no more")
    assert main([str(run.path)]) == 2
    error = capsys.readouterr().err
    assert "is not the dataset of a run" in error
    assert error.count("\n") == 1


def test_help_names_every_exit_code(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--help"])
    out = capsys.readouterr().out
    assert all(f"\n  {code} " in out for code in (0, 1, 2, 3, 130))


def test_ctrl_c_leaves_nothing(open_tmp: Path) -> None:
    slow = make_task(open_tmp / "tasks/slow", b"#!/bin/bash\nsleep 600\n")
    run = make_run(open_tmp / "run", slow)
    for number in range(3):
        add_trial(run, f"t-{number}", slow, MENDED, Outcome.SOLVED)
    process = subprocess.Popen(
        [sys.executable, "-m", "lego_verl.regrade", str(run.path), "--jobs", "2"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    me = identity(process.pid)
    mine = lambda: [pid for pid, starter, of_run in sandbox_processes() if starter == me and "regrade" in of_run]  # noqa: E731
    deadline = time.monotonic() + 60
    while len(mine()) < 2:  # each sandbox has an outer and an inner process; two of them sleep
        assert time.monotonic() < deadline
        assert process.poll() is None
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130, error.decode()
    assert "nothing of it is running" in error.decode()
    assert mine() == []
    assert not (Scratch().root / f"regrade-{process.pid}").exists()
    assert not (run.path / "regrade.jsonl").exists()

"""What is kept of a trial, and what is said of a disk, never stands in the way."""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas
import pytest
from monitor_run import PATCH, capture, make_run

from lego_verl.monitor.disk import disk_trouble
from lego_verl.monitor.keep import keep_trial
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.monitor.store_index import index_run, read_rows
from lego_verl.trial.outcome import Outcome
from lego_verl.trial.record import FinishedTrial, TrialRecord


def finished(**more: Any) -> FinishedTrial:
    session: Any = SimpleNamespace(capture=capture("cat a.py", "sed -i s/x/y/ a.py"))
    segments = tuple(session.capture.segments())
    trial = TrialRecord("t", "bakery", Outcome.SOLVED, reward=1.0)
    return FinishedTrial(trial, segments, PATCH, session=session, **more)


def test_the_rows_of_a_trial_are_those_of_its_files(tmp_path: Path) -> None:
    rows = keep_trial(tmp_path / "t", finished())
    assert rows == read_rows(tmp_path / "t")
    assert rows is not None
    assert rows.behaviour["patch_lines"] == 3
    assert rows.seconds > 0
    assert keep_trial(None, finished()) == rows


def test_a_folder_that_cannot_be_written_is_said_and_the_trial_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert keep_trial(tmp_path / "file" / "t", finished()) is not None
    assert "RUN FOLDER" in capsys.readouterr().err


def test_a_fault_in_counting_is_said_and_the_trial_goes_on(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a bug")

    monkeypatch.setattr("lego_verl.monitor.store_rows.turns_of", broken)
    assert keep_trial(None, finished()) is None
    assert "RuntimeError('a bug')" in capsys.readouterr().err


def test_a_filling_disk_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunFolder(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=1 << 40, free=1 << 30))
    assert disk_trouble(run) == ""
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(total=1 << 40, free=100 << 20))
    assert "100 MiB left" in disk_trouble(run)


def test_pandas_reads_the_store(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    index_run(run)
    with sqlite3.connect(run.store) as db:
        trials = pandas.read_sql("SELECT * FROM trials", db)
    assert trials.groupby("step")["reward"].sum().tolist() == [2.0, 2.0, 2.0]

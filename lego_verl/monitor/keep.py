"""What is kept of a trial that ended, without ever standing in its way: monitoring stops nothing but itself."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

from lego_verl.monitor.store_rows import TrialRows, rows_of_trial
from lego_verl.trial.record import FinishedTrial, write_trial


def keep_trial(folder: Path | None, finished: FinishedTrial) -> TrialRows | None:
    """Write a trial's folder, and return its rows for the run's store; None where there are none.

    A folder that cannot be written (a full disk) is said aloud, and the trial is trained all the same: its segments
    are in memory.

    Args:
        folder: None: nothing is written.
    """
    began = time.thread_time()
    if folder is not None:
        try:
            write_trial(folder, finished)
        except OSError as error:
            _say(f"RUN FOLDER: {folder} cannot be written: {error}. The trial counts, but cannot be looked at later")
    try:
        rows = rows_of_trial(finished)
    except Exception as error:  # noqa: BLE001
        # Counts for people, made of whatever an agent wrote: a fault in them must not end a run. No token is touched.
        _say(f"RUN STORE: the calls of trial {finished.record.trial} cannot be counted: {error!r}")
        return None
    return rows and replace(rows, seconds=time.thread_time() - began)


def _say(line: str) -> None:
    print(f"lego_verl: {line}", file=sys.stderr, flush=True)

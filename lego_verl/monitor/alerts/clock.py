"""What only a clock shows: a disk that fills, and a run that has fallen silent. Asked by readers, step or no step."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping
from itertools import pairwise

from lego_verl.monitor.alert_settings import DiskAlert, SilenceAlert
from lego_verl.monitor.alerts.finding import Finding, Severity

FREE = "disk/free_bytes"
"""Metric of a step: room on the disk that holds the run."""
OPENED = "opened"
"""Key in ``meta``: when the run's ledger was last opened, seconds since 1970."""
_STEPS, _LEAST = 10, 6
_ROOMY = 0.2


def disk(
    setting: DiskAlert,
    *,
    free: int,
    total: int,
    checkpoint: int = 0,
    history: Mapping[int, float] | None = None,
    step_seconds: float | None = None,
) -> Finding | None:
    """Whether a disk is filling.

    Args:
        free: bytes, now; ``total`` of the disk.
        checkpoint: bytes of the newest checkpoint.
        history: ``FREE`` by step.
        step_seconds: of one step; None: not known, and neither is when it will be full.
    """
    needed = max(min(setting.free_mb << 20, total // 5), 2 * checkpoint)
    what = "what cannot be written is lost to the store, and checkpoints fail"
    first = "what of old steps may go (lego.monitor.keep), and trainer.max_actor_ckpt_to_keep"
    if free < needed:
        more = f", and the newest checkpoint takes {_size(checkpoint)}" if 2 * checkpoint >= needed else ""
        seen = f"the disk that holds the run has {_size(free)} left{more}: {what}"
        return Finding(seen, first, "time", Severity.CRITICAL)
    seconds = _seconds_left(free, dict(sorted((history or {}).items())[-_STEPS:]), step_seconds)
    if seconds is not None and seconds < setting.hours * 3600 and free < _ROOMY * total:
        rate = f"at the rate of the last steps it is full in {seconds / 3600:.1f} hours"
        return Finding(f"the disk that holds the run has {_size(free)} left, and {rate}: {what}", first, "time")
    return None


def _seconds_left(free: int, history: Mapping[int, float], step_seconds: float | None) -> float | None:
    values = list(history.values())
    if step_seconds is None or len(values) < _LEAST:
        return None
    falls = [before - after for before, after in pairwise(values)]
    if sum(fall > 0 for fall in falls) < 0.8 * len(falls):  # others use the disk as well
        return None
    a_step = (values[0] - values[-1]) / (max(history) - min(history))
    return free / a_step * step_seconds if a_step > 0 else None


def silence(db: sqlite3.Connection, setting: SilenceAlert, *, now: float, since: float = 0.0) -> Finding | None:
    """Whether a run that has not ended does nothing: by its last event, or by a trial that hangs while others go on.

    Args:
        now: seconds since 1970.
        since: when the run was started, this time: one that was stopped for a day and goes on is not silent.
    """
    last = db.execute("SELECT t, kind, step FROM events WHERE kind <> 'alert' ORDER BY id DESC LIMIT 1").fetchone()
    if last is None:
        return None
    slowest = db.execute(
        "SELECT max(value) FROM (SELECT value FROM metrics WHERE name = 'seconds' AND split = 'train' "
        "ORDER BY step DESC LIMIT 20)"
    ).fetchone()[0]
    bound = max(setting.least_seconds, setting.factor * (slowest or setting.least_seconds))
    opened = db.execute("SELECT value FROM meta WHERE key = ?", (OPENED,)).fetchone()
    since = max(since, float(opened[0]) if opened else 0.0)
    if now - max(last[0], since) > bound:
        usual = "" if slowest is None else f"; the longest of the last steps took {_time(slowest)}"
        return Finding(
            f"nothing has happened for {_time(now - last[0])}: the last was '{last[1]}' in step {last[2]}{usual}",
            "the trials that are still running, and the end of logs/training.log",
            "time",
            Severity.CRITICAL,
        )
    longest = db.execute("SELECT max(total_seconds) FROM trials WHERE outcome IS NOT NULL").fetchone()[0]
    oldest = db.execute(
        "SELECT trial, started FROM trials INDEXED BY trials_running WHERE state = 'running' AND started IS NOT NULL "
        "ORDER BY started LIMIT 1"
    ).fetchone()
    if oldest is None or longest is None:
        return None
    bound = max(setting.least_seconds, setting.factor * longest)
    if now - oldest[1] <= bound:
        return None
    return Finding(
        f"trial {oldest[0]} has been running for {_time(now - oldest[1])}, and the longest so far took "
        f"{_time(longest)}: its rollout worker may be gone",
        "the trials that are still running",
        "time",
    )


def _size(size: float) -> str:
    return f"{size / 2**30:.1f} GiB" if size >= 2**30 else f"{size / 2**20:.0f} MiB"


def _time(seconds: float) -> str:
    return (
        f"{seconds:.0f} s"
        if seconds < 120
        else f"{seconds / 60:.0f} min"
        if seconds < 7200
        else f"{seconds / 3600:.1f} h"
    )

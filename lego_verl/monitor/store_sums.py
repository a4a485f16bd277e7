"""Sums by step over the trials of a store, so that a view of 100,000 trials reads some thousand rows.

They are a cache: whoever writes a trial forgets its step's, and who reads adds up the steps that have none.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping

BEHAVIOUR = (
    *("turns", "side_calls", "silent_turns", "characters", "thinking_characters", "tool_calls", "malformed_calls"),
    *("reads", "searches", "edits", "tests", "runs", "submits", "others", "failed_acts", "tested", "files_read"),
    *("files_edited", "edited_after_reading", "edited_and_checked", "repeated_commands", "looping_turns", "looped"),
    *("patch_files", "patch_lines"),
)
"""Counts of ``behaviour`` that are summed."""
_SECONDS = ("queued", "start", "harness", "generation", "patch", "grading", "total")
_COLUMNS = {
    "step": "t.step",
    "split": "t.split",
    "task": "t.task",
    "group_id": "t.group_id",
    "harness": "t.harness",
    "trials": "count(*)",
    "trained": "sum(t.trained = 1)",
    "dropped": "sum(t.treatment = 'drop' OR t.trained = 0)",
    "graded": "count(t.reward)",
    "solved": "sum(t.reward >= 1)",
    "rewards": "sum(t.reward)",
    "reward_min": "min(t.reward)",
    "reward_max": "max(t.reward)",
    "attempts": "sum(t.attempts)",
    **{name: f"sum(t.{name})" for name in ("calls", "segments", "sampled_tokens", "loss_tokens")},
    **{f"{phase}_seconds": f"sum(t.{phase}_seconds)" for phase in _SECONDS},
    "slowest_seconds": "max(t.total_seconds)",
    # How old a trial is, its step says: until one has closed it, nothing is known.
    "versioned": "count(t.weights_last + t.trained_step)",
    "span": "sum(t.weights_last - t.weights_first + 0 * t.trained_step)",
    "widest_span": "max(t.weights_last - t.weights_first + 0 * t.trained_step)",
    "lag": "sum(t.trained_step - 1 - t.weights_last)",
    "longest_lag": "max(t.trained_step - 1 - t.weights_last)",
    "observed": "count(b.trial_id)",
    **{name: f"sum(b.{name})" for name in BEHAVIOUR},
}
_KEYS = ("step", "split", "task", "group_id", "harness")
_LEAST, _MOST = ("reward_min",), ("reward_max", "slowest_seconds", "widest_span", "longest_lag")
_STEP_COLUMNS = {
    "step": "step",
    "split": "split",
    "harness": "harness",
    "groups": "count(*)",
    "zero_variance": "sum(graded > 1 AND reward_min = reward_max)",
    **{name: f"sum({name})" for name in _COLUMNS if name not in (*_KEYS, *_LEAST, *_MOST)},
    **{name: f"min({name})" for name in _LEAST},
    **{name: f"max({name})" for name in _MOST},
}
_ENDINGS = {
    "step": "t.step",
    "split": "t.split",
    "harness": "t.harness",
    "outcome": "ifnull(t.outcome, 'running')",
    "trained": "ifnull(t.trained, -1)",
    "why_not": "ifnull(t.why_not, '')",
    "last_act": "ifnull(b.last_act, '')",
    "trials": "count(*)",
}
_JOINED = "trials t LEFT JOIN behaviour b ON b.trial_id = t.id"
_BY_GROUP = "GROUP BY t.step, t.split, t.task, t.group_id, t.harness"
_BY_ENDING = "GROUP BY 1, 2, 3, 4, 5, 6, 7"
_OF_STEP = "WHERE t.step = ? AND t.split = ?"
# In this order: else SQLite reads all trials to find those of the one step that is open.
_OPEN = (
    "open_steps o CROSS JOIN trials t ON t.step = o.step AND t.split = o.split "
    "LEFT JOIN behaviour b ON b.trial_id = t.id"
)
_TABLES = ("group_sums", "step_sums", "ending_sums")


def groups(*columns: str) -> str:
    """A table expression with columns of ``group_sums``, and with every step in it."""
    names = ", ".join(columns)
    return f"(SELECT {names} FROM group_sums UNION ALL SELECT {names} FROM ({_live_groups()}))"


def steps(*columns: str) -> str:
    """The same of ``step_sums``."""
    names = ", ".join(columns)
    live = f"SELECT {_how(_STEP_COLUMNS)} FROM ({_live_groups()}) GROUP BY step, split, harness"
    return f"(SELECT {names} FROM step_sums UNION ALL SELECT {names} FROM ({live}))"


def endings(*columns: str) -> str:
    """The same of ``ending_sums``."""
    names = ", ".join(columns)
    live = f"SELECT {_how(_ENDINGS)} FROM {_OPEN} {_BY_ENDING}"
    return f"(SELECT {names} FROM ending_sums UNION ALL SELECT {names} FROM ({live}))"


def _live_groups() -> str:
    return f"SELECT {_how(_COLUMNS)} FROM {_OPEN} {_BY_GROUP}"


def _how(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{how} AS {name}" for name, how in columns.items())


def make_sums(db: sqlite3.Connection, step: int, split: str) -> None:
    """Add up a step; inside a transaction."""
    forget_sums(db, step, split)
    values = (step, split)
    db.execute(
        f"INSERT INTO group_sums ({', '.join(_COLUMNS)}) SELECT {_how(_COLUMNS)} FROM {_JOINED} {_OF_STEP} {_BY_GROUP}",
        values,
    )
    db.execute(
        f"INSERT INTO step_sums ({', '.join(_STEP_COLUMNS)}) SELECT {_how(_STEP_COLUMNS)} FROM group_sums t {_OF_STEP} "
        "GROUP BY step, split, harness",
        values,
    )
    db.execute(
        f"INSERT INTO ending_sums ({', '.join(_ENDINGS)}) SELECT {_how(_ENDINGS)} FROM {_JOINED} {_OF_STEP} "
        f"{_BY_ENDING}",
        values,
    )
    db.execute("DELETE FROM open_steps WHERE step = ? AND split = ?", values)


def forget_sums(db: sqlite3.Connection, step: int, split: str) -> None:
    """Inside a transaction that changes a trial of the step."""
    if db.execute("INSERT OR IGNORE INTO open_steps VALUES (?, ?)", (step, split)).rowcount:
        for table in _TABLES:
            db.execute(f"DELETE FROM {table} WHERE step = ? AND split = ?", (step, split))

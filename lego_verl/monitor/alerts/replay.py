"""The rules over a run that is finished, step by step, as if it were running."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from typing import Any

from lego_verl.monitor.alerts.book import AlertBook
from lego_verl.monitor.alerts.evidence import evidence
from lego_verl.monitor.alerts.rules import STEP_ALERTS, Watched, look
from lego_verl.monitor.queries.read import column


def replay(db: sqlite3.Connection, watched: Watched, *, run: str) -> Iterator[tuple[int, dict[str, Any]]]:
    """(step, what is new) of every step that closed; what a clock shows is not in it."""
    book = AlertBook(run)
    closed = "SELECT DISTINCT step FROM metrics WHERE split = 'train' AND name = 'seconds' AND step > 0 ORDER BY step"
    for step in column(db, closed):
        for each in book.take(step, look(evidence(db, step), watched), STEP_ALERTS):
            yield step, each

"""Looks at a run after each step, and says what is to be told of it: alerts, and the trials of the step as a table."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from typing import Any

from lego_verl.monitor import queries
from lego_verl.monitor.alerts import BY_CLOCK, STEP_ALERTS, AlertBook, Finding, Watched, evidence, look, open_alerts
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.monitor.trial_table import trial_table

Tell = Callable[[int, Mapping[str, Any]], None]


class StepWatch:
    """Part of the run's ledger, which tells it when the numbers of a step are in the store.

    Args:
        tell: records an alert: (step, the event's data).
    """

    def __init__(self, run: RunFolder, tell: Tell) -> None:
        self._run, self._tell = run, tell
        self._watched = Watched.of(run.recipe)
        self._looked_at = [name for name in STEP_ALERTS if getattr(self._watched.settings, name).enabled]
        self._book: AlertBook | None = None

    def step_closed(self, step: int, *, rows: int = 0) -> dict[str, Any]:
        """What is new after a step: ``news`` (data of alert events), ``open`` (every alert that is looked at: 1 or 0),
        ``trials`` (``trial_table`` with at most ``rows``). Empty where the store cannot be read."""
        try:
            with queries.read_store(self._run.store) as db:
                book = self._opened(db)
                news = book.take(step, look(evidence(db, step), self._watched), self._looked_at)
                trials = trial_table(db, step, run=self._run.name, rows=rows) if rows else []
        except (sqlite3.Error, OSError):  # the store says so itself when it is written
            return {"news": [], "open": {}, "trials": []}
        for each in news:
            self._tell(step, each)
        names = {*self._looked_at, *book.open} - {*BY_CLOCK}
        return {"news": news, "open": {name: int(name in book.open) for name in sorted(names)}, "trials": trials}

    def raise_now(self, step: int, name: str, finding: Finding | None) -> None:
        """Tell what no rule sees: that a guard stopped the run.

        Args:
            finding: None: it is over.
        """
        book = self._book
        try:
            if book is None and self._run.store.exists():
                with queries.read_store(self._run.store) as db:
                    book = self._opened(db)
        except (sqlite3.Error, OSError):
            book = None
        book = book or AlertBook(self._run.name)
        for each in book.close(name) if finding is None else book.take(step, {name: finding}, ()):
            self._tell(step, each)

    def _opened(self, db: sqlite3.Connection) -> AlertBook:
        """A run that was resumed goes on with the alerts that were open; what stopped it is over."""
        if self._book is None:
            known = {each["name"]: int(each["step"] or 0) for each in open_alerts(db) if each.get("name")}
            self._book = AlertBook(self._run.name, known)
            for name in known.keys() - {*STEP_ALERTS, *BY_CLOCK}:
                for each in self._book.close(name):
                    self._tell(known[name], each)
        return self._book

"""Which alerts are open: each is told once when it opens and once when it is over."""

from __future__ import annotations

import sqlite3
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from lego_verl.monitor.alerts.finding import Finding, Severity
from lego_verl.monitor.queries.overview import events

_CALM = 3
"""Looks in a row that must see nothing before an alert is over: one that comes and goes is one alert."""


@dataclass
class _Open:
    step: int
    calm: int = 0


class AlertBook:
    """Turns findings into news.

    Args:
        run: its name, for the dashboard's addresses.
        open_since: alerts that are open, with the step in which they began (``open_alerts``).
    """

    def __init__(self, run: str, open_since: Mapping[str, int] | None = None) -> None:
        self._run = run
        self._open = {name: _Open(step) for name, step in (open_since or {}).items()}

    @property
    def open(self) -> dict[str, int]:
        """Names of the open alerts, with the step in which each began."""
        return {name: each.step for name, each in self._open.items()}

    def take(self, step: int, seen: Mapping[str, Finding], looked_at: Collection[str]) -> list[dict[str, Any]]:
        """What is new, each ready to be an event's ``data``: ``name, severity, message, look, state``.

        Args:
            looked_at: the alerts that were looked at; others stay as they are.
        """
        news = []
        for name, finding in seen.items():
            if name in self._open:
                self._open[name].calm = 0
                continue
            self._open[name] = _Open(step)
            news.append(self._news(name, finding.severity, finding.message, finding.view, "open"))
        for name in sorted(self._open.keys() & set(looked_at) - seen.keys()):
            self._open[name].calm += 1
            if self._open[name].calm >= _CALM:
                news += self.close(name)
        return news

    def close(self, name: str) -> list[dict[str, Any]]:
        """What there is to tell of an alert that is over; nothing where it was not open."""
        if name not in self._open:
            return []
        began = self._open.pop(name).step
        told = f"{name.replace('_', ' ')}: over; it began in step {began}"
        return [self._news(name, Severity.WARNING, told, "overview", "closed")]

    def _news(self, name: str, severity: Severity, message: str, view: str, state: str) -> dict[str, Any]:
        return {
            "name": name,
            "severity": str(severity),
            "message": message,
            "look": f"#/run/{quote(self._run, safe='')}/{view}",
            "state": state,
        }


def alert_events(db: sqlite3.Connection, *, limit: int = 500) -> list[dict[str, Any]]:
    """The alerts that were told, the oldest first: ``step, t`` and what an event's data has."""
    rows = events(db, kinds=("alert",), limit=limit)
    return [{"step": row["step"], "t": row["t"], **row["data"]} for row in reversed(rows)]


def open_alerts(db: sqlite3.Connection) -> list[dict[str, Any]]:
    """Those of them that are not over, the newest of each name, the oldest first."""
    newest = {each.get("name", each.get("message")): each for each in alert_events(db)}
    return sorted((each for each in newest.values() if each.get("state") != "closed"), key=lambda each: each["t"])

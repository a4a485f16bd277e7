"""What a rule says when it sees something: for a person, with figures, and with where to look first."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Severity(StrEnum):
    WARNING = "warning"
    """The run goes on, and may go wrong or waste its time."""
    CRITICAL = "critical"
    """What is trained now is not what it should be, or the run is about to end."""


@dataclass(frozen=True)
class Finding:
    """What one rule saw in one step."""

    seen: str
    """What was seen, with figures: a sentence without its full stop."""
    first: str
    """What to look at first: goes on after "Look first at"."""
    view: str = "overview"
    """Of the dashboard, behind ``#/run/NAME/``."""
    severity: Severity = Severity.WARNING

    @property
    def message(self) -> str:
        return f"{self.seen}. Look first at {self.first}."

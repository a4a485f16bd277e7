"""What a rule is. The rules themselves are in ``rules``, a file a theme."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum

from lego_verl.audit.evidence import Kind

_FLAGS = re.MULTILINE | re.VERBOSE


class Severity(StrEnum):
    """In order: the worst first."""

    SEVERE = "severe"
    """What hardly anybody does who wants to solve the task."""
    SUSPICIOUS = "suspicious"
    """Worth a look, and a second grading."""
    NOTE = "note"
    """Counted, since honest agents do it, too: it tells a run from another, not a trial."""


@dataclass(frozen=True)
class Rule:
    """One idea: looks for a pattern in one kind of evidence, and says why that matters."""

    name: str
    looks_at: Kind
    severity: Severity
    pattern: re.Pattern[str]
    why: str
    honest: re.Pattern[str] | None = None
    """What is taken out of the text before: the same words in an honest use."""

    def find(self, text: str) -> re.Match[str] | None:
        """The first place that it points at."""
        if self.honest is not None:
            text = self.honest.sub(lambda match: " " * len(match[0]), text)  # places stay where they were
        return self.pattern.search(text)


def rule(name: str, looks_at: Kind, severity: Severity, pattern: str, why: str, *, honest: str | None = None) -> Rule:
    """A rule from patterns in verbose form: spaces in them mean nothing, and ``^`` and ``$`` are a line's."""
    compiled = None if honest is None else re.compile(honest, _FLAGS)
    return Rule(name, looks_at, severity, re.compile(pattern, _FLAGS), why, compiled)

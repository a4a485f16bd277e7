"""Applies the rules to the trials of a run."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lego_verl.audit.evidence import Evidence, evidence_of
from lego_verl.audit.rule import Rule, Severity
from lego_verl.audit.rules import RULES
from lego_verl.capture.record import RecordingError
from lego_verl.regrade.find import read_record, step_of
from lego_verl.trial.record import TrialRecord

_QUOTE = 240
"""Characters of a quotation."""
_EACH = 5
"""Findings of one rule in one trial; more say nothing new."""
_WINDOW, _OVERLAP = 8000, 1000
"""Long texts are looked at in parts: the time that a pattern takes may grow with the square of its text."""


@dataclass(frozen=True)
class Finding:
    """One place that one rule points at."""

    rule: str
    severity: Severity
    why: str
    where: str
    quote: str
    call: int | None = None

    def as_dict(self) -> dict[str, Any]:
        """Ready for JSON."""
        words = {"rule": self.rule, "severity": str(self.severity), "where": self.where, "quote": self.quote}
        return words if self.call is None else {**words, "call": self.call}


@dataclass(frozen=True)
class Audited:
    """One trial that was looked through."""

    folder: Path
    record: TrialRecord
    findings: Sequence[Finding] = field(default_factory=list)
    recorded: bool = True
    """Whether its calls could be looked at."""
    error: str = ""
    """Why not all of it could be read; empty when it was."""

    @property
    def step(self) -> int:
        return step_of(self.folder)

    @property
    def severity(self) -> Severity | None:
        """The worst of its findings."""
        return next((each for each in Severity if any(each is found.severity for found in self.findings)), None)

    @property
    def suspected(self) -> bool:
        return self.severity in (Severity.SEVERE, Severity.SUSPICIOUS)


def audit_trial(folder: Path, rules: Sequence[Rule] = RULES) -> Audited:
    """Look through one trial.

    Raises:
        NoRun: when the folder holds no trial's record.
    """
    record = read_record(folder)
    recorded = (folder / "calls.jsonl").exists()
    try:
        return Audited(folder, record, look(evidence_of(folder, record), rules), recorded)
    except (RecordingError, OSError) as error:
        return Audited(folder, record, recorded=False, error=str(error))


def look(evidence: Iterable[Evidence], rules: Sequence[Rule] = RULES) -> list[Finding]:
    """What the rules find, in order: each rule at most once a text, and a few times in all."""
    findings: list[Finding] = []
    counts: dict[str, int] = {}
    for each in evidence:
        for rule in rules:
            if rule.looks_at is not each.kind or counts.get(rule.name, 0) >= _EACH:
                continue
            place = _find(rule, each.text)
            if place is not None:
                counts[rule.name] = counts.get(rule.name, 0) + 1
                quote = _quoted(each.text, *place) if each.whole is None else _quoted(each.whole)
                findings.append(Finding(rule.name, rule.severity, rule.why, each.where, quote, each.call))
    return findings


def _find(rule: Rule, text: str) -> tuple[int, int] | None:
    """Where the rule's first place begins and ends."""
    for start in range(0, max(len(text) - _OVERLAP, 1), _WINDOW - _OVERLAP):
        match = rule.find(text[start : start + _WINDOW])
        if match is not None:
            return start + match.start(), start + match.end()
    return None


def _quoted(text: str, start: int = 0, end: int = 0) -> str:
    """The text, or of a long one what stands around the place, in one line."""
    first = max(0, min(start - _QUOTE // 4, len(text) - _QUOTE))
    if len(text) <= _QUOTE:
        first = 0
    last = max(first + _QUOTE, min(end, first + 2 * _QUOTE))
    words = text[first:last].strip().replace("\n", " ⏎ ")
    return ("… " if first else "") + words + (" …" if last < len(text) else "")

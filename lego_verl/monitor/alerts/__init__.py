"""Alerts: rules that look at the store after every step, and what they say to a person.

Each rule is one file: what it watches, and a function of ``Evidence`` and its part of ``AlertSettings`` that returns a
``Finding`` or None. ``book`` tells each once; ``replay`` runs them over a finished run.
"""

from __future__ import annotations

from lego_verl.monitor.alert_settings import AlertSettings
from lego_verl.monitor.alerts.book import AlertBook, alert_events, open_alerts
from lego_verl.monitor.alerts.evidence import Evidence, StepFacts, evidence
from lego_verl.monitor.alerts.finding import Finding, Severity
from lego_verl.monitor.alerts.replay import replay
from lego_verl.monitor.alerts.rules import BY_CLOCK, RULES, STEP_ALERTS, Watched, look

__all__ = [
    "BY_CLOCK",
    "RULES",
    "STEP_ALERTS",
    "AlertBook",
    "AlertSettings",
    "Evidence",
    "Finding",
    "Severity",
    "StepFacts",
    "Watched",
    "alert_events",
    "evidence",
    "look",
    "open_alerts",
    "replay",
]

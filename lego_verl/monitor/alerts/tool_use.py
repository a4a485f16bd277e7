"""The agent stops to act and starts to write: turns without a tool call."""

from __future__ import annotations

from lego_verl.monitor.alert_settings import ToolUseAlert
from lego_verl.monitor.alerts.chance import mean, sigmas_between
from lego_verl.monitor.alerts.evidence import FIRST, Evidence
from lego_verl.monitor.alerts.finding import Finding, Severity

_LEAST_TRIALS = 6


def tool_use(found: Evidence, setting: ToolUseAlert) -> Finding | None:
    """One step, or two, against the run's own first steps; or nearly no acting at all."""
    for span in (1, 2):
        first = found.step - span + 1
        now = [share for step, shares in found.silent.items() if step >= first for share in shares]
        before = [share for step, shares in found.silent.items() if step <= FIRST and step < first for share in shares]
        if len(now) < _LEAST_TRIALS:
            continue
        risen = bool(before) and mean(now) - mean(before) >= setting.rise
        if mean(now) >= setting.share or (risen and sigmas_between(before, now) >= setting.sigmas):
            then = f", {mean(before):.0%} in the first steps" if before else ""
            which = "the last step" if span == 1 else f"the last {span} steps"
            return Finding(
                f"{mean(now):.0%} of a trial's turns have no tool call in {which} ({len(now)} trials){then}",
                "a trial of the last step, turn by turn: does it still call its tools, and are the calls understood",
                "behaviour",
                Severity.CRITICAL,
            )
    return None

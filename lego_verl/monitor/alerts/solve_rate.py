"""The solve rate falls."""

from __future__ import annotations

from lego_verl.monitor.alert_settings import SolveRateAlert
from lego_verl.monitor.alerts.chance import mean, sigmas_between
from lego_verl.monitor.alerts.evidence import Evidence
from lego_verl.monitor.alerts.finding import Finding

_SPANS, _BEFORE = (2, 5, 10), 30


def solve_rate(found: Evidence, setting: SolveRateAlert) -> Finding | None:
    """The newest steps against those before them, by their groups: trials of one task are alike, so that they are no
    evidence each."""
    for span in _SPANS:
        first = found.step - span + 1
        now = [rate for step, rates in found.rates.items() if step >= first for rate in rates]
        before = [rate for step, rates in found.rates.items() if first - _BEFORE <= step < first for rate in rates]
        if not now or not before or mean(before) - mean(now) < setting.fall:
            continue
        sigmas = -sigmas_between(before, now)
        if sigmas >= setting.sigmas:
            return Finding(
                f"the solve rate fell to {mean(now):.2f} in the last {span} steps ({len(now)} groups), from "
                f"{mean(before):.2f} in the steps before ({len(before)} groups), {sigmas:.1f} standard errors",
                "how the trials of the last steps ended, and at what the agents do otherwise than before (Behaviour)",
                "learning",
            )
    return None

"""The canary: what the rollout servers hold is not what the trainer sent."""

from __future__ import annotations

from lego_verl.monitor.alert_settings import CanaryAlert
from lego_verl.monitor.alerts.evidence import Evidence
from lego_verl.monitor.alerts.finding import Finding, Severity

_FIRST = "the step at which it began, in the curves of the canary; logs/training.log has what the sync said"


def canary(found: Evidence, setting: CanaryAlert) -> Finding | None:
    """Most faults of a sync stop the run at once (``lego.guard.canary``); then the run itself says so."""
    step = found.step
    arrived = found.metric("canary_arrived").get(step)
    if arrived is not None and abs(arrived - 1) > setting.deviation:
        return Finding(
            f"after the weight sync of step {step} the rollout servers made {arrived:.2f} of the trainer's move on the "
            "canary (1 is a whole sync)",
            _FIRST,
            "alignment",
            Severity.CRITICAL,
        )
    changes = found.metric("canary_change", "probe_change")
    last = [changes.get(each) for each in (step - 1, step)]
    rates = found.metric("learning_rate")
    if last == [0.0, 0.0] and all(_learnt(found, each) and rates.get(each) != 0.0 for each in (step - 1, step)):
        return Finding(
            f"the rollout's weights have not moved on the canary in steps {step - 1} and {step}, though there was "
            "something to learn",
            _FIRST,
            "alignment",
            Severity.CRITICAL,
        )
    return None


def _learnt(found: Evidence, number: int) -> bool:
    return any(step.step == number and step.zero_variance < step.groups for step in found.steps)

"""There is nothing to learn from: the trials of a task all got the same reward."""

from __future__ import annotations

from lego_verl.monitor.alert_settings import SignalAlert
from lego_verl.monitor.alerts.chance import sigmas_above
from lego_verl.monitor.alerts.evidence import Evidence
from lego_verl.monitor.alerts.finding import Finding

_SPANS, _USUAL = (2, 5, 10, 20), 0.6
_SOLVED = 0.9


def signal(found: Evidence, setting: SignalAlert) -> Finding | None:
    for span in _SPANS:
        steps = found.last(span)
        groups = sum(step.groups for step in steps)
        flat = sum(step.zero_variance for step in steps)
        if not groups or flat < setting.share * groups or sigmas_above(flat, groups, _USUAL) < setting.sigmas:
            continue
        graded, solved = sum(step.graded for step in steps), sum(step.solved for step in steps)
        easy = graded and solved / graded >= _SOLVED
        return Finding(
            f"of the last {groups} groups {flat} had one reward for all their trials: they teach nothing "
            f"({solved} of {graded} trials solved)",
            "the grid of tasks: "
            + ("they are solved, and harder ones are wanted" if easy else "which are never solved"),
            "tasks",
        )
    return None

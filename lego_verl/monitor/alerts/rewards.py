"""What is trained with does not follow what happened."""

from __future__ import annotations

from lego_verl.monitor.alert_settings import RewardsAlert
from lego_verl.monitor.alerts.evidence import Evidence
from lego_verl.monitor.alerts.finding import Finding, Severity

ORDER, EQUAL, PAIRS = "reward_agreement/order", "reward_agreement/equal", "reward_agreement/pairs"
"""Metrics that the trainer hands over: see ``workers/reward_agreement.py``."""
_LEAST_PAIRS = 4


def rewards(found: Evidence, setting: RewardsAlert) -> Finding | None:
    order = found.metric(ORDER).get(found.step)
    pairs = found.metric(PAIRS).get(found.step, 0)
    if order is None or pairs < _LEAST_PAIRS or order >= setting.agree:
        return None
    equal = found.metric(EQUAL).get(found.step)
    same = "" if equal is None else f"; {equal:.0%} of the trials were trained with the reward that their grader gave"
    return Finding(
        f"of {pairs:.0f} pairs of a solved and an unsolved trial of step {found.step}, the solved one was trained with "
        f"the higher reward in {order:.0%}{same}",
        "what stands between the grader and the trainer: lego.guard.shuffle_rewards, a reward of the recipe's own",
        "recipe",
        Severity.CRITICAL,
    )

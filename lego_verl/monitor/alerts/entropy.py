"""The policy's entropy collapses."""

from __future__ import annotations

from statistics import median

from lego_verl.monitor.alert_settings import EntropyAlert
from lego_verl.monitor.alerts.evidence import FIRST, Evidence
from lego_verl.monitor.alerts.finding import Finding

_NOW = 3


def entropy(found: Evidence, setting: EntropyAlert) -> Finding | None:
    """The median of three steps against that of the first five. Without an entropy, the mean log-probability of what
    was sampled, with its sign turned, which is an estimate of it."""
    what = "entropy"
    values = found.metric("entropy", "actor/entropy")
    if not values:
        what = "mean negative log-probability of what is sampled"
        values = {step: -value for step, value in sorted(found.logprobs.items())}
    first = [value for step, value in values.items() if step <= FIRST]
    now = [value for step, value in values.items() if found.step - _NOW < step <= found.step and step > FIRST]
    if len(first) < _NOW or len(now) < _NOW or median(first) <= 0 or median(now) > setting.share * median(first):
        return None
    return Finding(
        f"the {what} is {median(now):.3g} nats in the last {_NOW} steps, and was {median(first):.3g} in the first: the "
        "policy hardly tries anything else any more",
        "the curve of the entropy beside the solve rate: where both stand still, a higher entropy_coeff, "
        "clip_ratio_high or temperature",
        "learning",
    )

"""Tokens are trained long after they were sampled."""

from __future__ import annotations

from lego_verl.monitor.alert_settings import StalenessAlert
from lego_verl.monitor.alerts.evidence import BY_LAG, Evidence
from lego_verl.monitor.alerts.finding import Finding

_OLD = ("stale", "group_stale")
_LEAST_TRIALS = 6


def staleness(found: Evidence, setting: StalenessAlert) -> Finding | None:
    lag = _mean_lag(found)
    if lag is not None and lag > setting.mean_lag:
        return Finding(
            f"the tokens of step {found.step} are {lag:.1f} weight updates older than the weights that they train, on "
            f"average (bound: {setting.mean_lag:g})",
            "staleness by step, and the slowest trials: fewer batches ahead (num_warmup_batches), or shorter trials",
            "alignment",
        )
    step = next(iter(found.last(1)), None)
    old = sum(step.dropped[why] for why in _OLD) if step else 0
    if step and old >= max(setting.dropped * step.trials, 1) and step.trials >= _LEAST_TRIALS:
        return Finding(
            f"{old} of the {step.trials} trials of step {step.step} were thrown away as too old",
            "the slowest trials, and lego.trial.version_span",
            "time",
        )
    return None


def _mean_lag(found: Evidence) -> float | None:
    """Over the loss tokens of the step; where that is not known, over its trials."""
    tokens: dict[int, float] = {}
    for name, values in found.metrics.items():
        if name.startswith(BY_LAG) and name.endswith("/tokens") and found.step in values:
            tokens[int(name.removeprefix(BY_LAG).split("/")[0])] = values[found.step]
    if total := sum(tokens.values()):
        return sum(lag * count for lag, count in tokens.items()) / total
    return next((step.lag for step in found.last(1)), None)

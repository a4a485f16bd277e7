"""Rollout and trainer disagree on the probability of tokens."""

from __future__ import annotations

from lego_verl.monitor.alert_settings import AlignmentAlert, EffectiveShareAlert
from lego_verl.monitor.alerts.evidence import Evidence
from lego_verl.monitor.alerts.finding import Finding, Severity

_FRESH = ("alignment/by_lag/0/pearson_probabilities", "alignment/lag_0/pearson_probabilities")
_SHARE = ("alignment/overall/effective_share", "alignment/effective_share")
_UNGUARDED = 0.98


def alignment(found: Evidence, setting: AlignmentAlert, *, min_pearson: float) -> Finding | None:
    """Of tokens that the trainer's own weights sampled: those of older weights need not agree.

    Args:
        min_pearson: ``lego.guard.min_pearson``; 0: the guard is off.
    """
    # A run from before alignment was told by lag has one number for all its tokens, which were all of lag 0.
    lags = any(name.startswith("alignment/") for name in found.metrics)
    pearson = (found.metric(*_FRESH) if lags else found.metric("pearson")).get(found.step)
    bound = 1 - setting.margin * (1 - (min_pearson or _UNGUARDED))
    if pearson is None or pearson >= bound:
        return None
    guard = f"; under lego.guard.min_pearson={min_pearson:g} the run stops" if min_pearson else ""
    return Finding(
        f"token probabilities of rollout and trainer correlate at {pearson:.5f}, under {bound:.5f}{guard}",
        "the curves of the alignment: a jump at one step is a weight sync or a setting, a slow fall is numerics",
        "alignment",
        Severity.CRITICAL,
    )


def effective_share(found: Evidence, setting: EffectiveShareAlert) -> Finding | None:
    share = found.metric(*_SHARE).get(found.step)
    if share is None or share >= setting.share:
        return None
    return Finding(
        f"the importance weights between rollout and trainer leave an effective sample of {share:.2f} of the loss "
        f"tokens, under {setting.share:g}",
        "staleness by lag and the largest weights; token or sequence correction (docs/10) cuts them",
        "alignment",
    )

"""More and more trials are not trained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from lego_verl.monitor.alert_settings import DroppedAlert
from lego_verl.monitor.alerts.chance import chance_of_as_many
from lego_verl.monitor.alerts.evidence import Evidence, StepFacts
from lego_verl.monitor.alerts.finding import Finding

_SPANS = (1, 2, 3)
_LEAST_TRIALS = 12
_USUAL = 0.02


def dropped(found: Evidence, setting: DroppedAlert) -> Finding | None:
    for span in _SPANS:
        now = found.last(span)
        before = [step for step in found.steps if step.step <= found.step - span]
        share, trials = _share(now), sum(step.trials for step in now)
        if trials < _LEAST_TRIALS:
            continue
        lost = sum(step.dropped.total() for step in now)
        risen = bool(before) and share - _share(before) >= setting.rise
        rare = risen and chance_of_as_many(lost, trials, max(_share(before), _USUAL)) < setting.chance
        if share >= setting.share or rare:
            why: Counter[str] = sum((step.dropped for step in now), Counter())
            told = ", ".join(f"{name} {count}" for name, count in why.most_common(3))
            then = f", {_share(before):.0%} before" if before else ""
            return Finding(
                f"{share:.0%} of the {trials} trials of the last {'step' if span == 1 else f'{span} steps'} were not "
                f"trained ({told}){then}",
                "what took them, by outcome, and the error of one of each",
                "outcomes",
            )
    return None


def _share(steps: Sequence[StepFacts]) -> float:
    trials = sum(step.trials for step in steps)
    return sum(step.dropped.total() for step in steps) / trials if trials else 0.0

"""A burst of faults of sandboxes, graders, harnesses or engines."""

from __future__ import annotations

from collections import Counter

from lego_verl.monitor.alert_settings import InfrastructureAlert
from lego_verl.monitor.alerts.chance import chance_of_as_many
from lego_verl.monitor.alerts.evidence import Evidence
from lego_verl.monitor.alerts.finding import Finding


def infrastructure(found: Evidence, setting: InfrastructureAlert) -> Finding | None:
    """One step, or two together: more faults than a sound installation makes."""
    for span in (1, 2):
        steps = found.last(span)
        faults: Counter[str] = sum((step.faults for step in steps), Counter())
        attempts = sum(step.attempts for step in steps)
        if not faults or chance_of_as_many(faults.total(), attempts, setting.usual) >= setting.chance:
            continue
        told = ", ".join(f"{name} {count}" for name, count in faults.most_common(3))
        return Finding(
            f"of the {attempts} attempts of the last {'step' if span == 1 else f'{span} steps'} {faults.total()} ended "
            f"by a fault of infrastructure ({told}): no reward is made of them, and what is trained gets less",
            f"the errors of trials that ended {faults.most_common(1)[0][0]}; docs/07 has its causes",
            "outcomes",
        )
    return None

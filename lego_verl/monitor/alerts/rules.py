"""All rules, by the name of their alert, and one look of all of them at a step."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lego_verl.monitor.alert_settings import AlertSettings
from lego_verl.monitor.alerts.alignment import alignment, effective_share
from lego_verl.monitor.alerts.canary import canary
from lego_verl.monitor.alerts.dropped import dropped
from lego_verl.monitor.alerts.entropy import entropy
from lego_verl.monitor.alerts.evidence import Evidence
from lego_verl.monitor.alerts.finding import Finding
from lego_verl.monitor.alerts.infrastructure import infrastructure
from lego_verl.monitor.alerts.rewards import rewards
from lego_verl.monitor.alerts.signal import signal
from lego_verl.monitor.alerts.solve_rate import solve_rate
from lego_verl.monitor.alerts.staleness import staleness
from lego_verl.monitor.alerts.tool_use import tool_use

Rule = Callable[[Evidence, Any], Finding | None]
RULES: dict[str, Rule] = {
    "solve_rate": solve_rate,
    "signal": signal,
    "tool_use": tool_use,
    "entropy": entropy,
    "effective_share": effective_share,
    "dropped": dropped,
    "infrastructure": infrastructure,
    "staleness": staleness,
    "canary": canary,
    "rewards": rewards,
}
"""Those that need nothing but the evidence; ``alignment`` knows the guard's bound, too."""
BY_CLOCK = ("disk", "silence")
STEP_ALERTS = (*RULES, "alignment")


@dataclass(frozen=True)
class Watched:
    """What a run is watched for."""

    settings: AlertSettings = field(default_factory=AlertSettings)
    min_pearson: float = 0.999
    """``lego.guard.min_pearson``."""

    @classmethod
    def of(cls, recipe: Path) -> Watched:
        """As a run's resolved recipe says; the defaults where it says nothing, or there is none that can be read."""
        from omegaconf import OmegaConf
        from omegaconf.errors import OmegaConfBaseException

        try:
            config = OmegaConf.load(recipe)
            given = OmegaConf.select(config, "lego.monitor.alerts")
            settings = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(AlertSettings), given or {}))
            pearson = OmegaConf.select(config, "lego.guard.min_pearson")
        except (OSError, OmegaConfBaseException, ValueError):
            return cls()
        assert isinstance(settings, AlertSettings)
        return cls(settings, 0.999 if pearson is None else float(pearson))


def look(found: Evidence, watched: Watched) -> dict[str, Finding]:
    """What the rules see, by the name of the alert. A rule that fails is said aloud, and stops nothing."""
    seen = {}
    for name in STEP_ALERTS:
        setting = getattr(watched.settings, name)
        if not setting.enabled:
            continue
        try:
            if name == "alignment":
                finding = alignment(found, setting, min_pearson=watched.min_pearson)
            else:
                finding = RULES[name](found, setting)
        except Exception as error:  # noqa: BLE001
            # Counts for people: a fault in a rule must not end a run. No token is touched.
            print(
                f"lego_verl: ALERTS: the rule {name} failed at step {found.step}: {error!r}",
                file=sys.stderr,
                flush=True,
            )
            continue
        if finding is not None:
            seen[name] = finding
    return seen

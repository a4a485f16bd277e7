"""Which harness works at a task: the recipe's one, or one of several that is drawn by weight (``harness=mix``).

A group (all trials of a task in a step) is drawn as a whole, so that its statistics compare trials of one harness.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from harness_adapters.adapter import HarnessAdapter, HarnessError
from harness_adapters.registry import load_adapter
from lego_verl.config import ConfigError, HarnessConfig

MIX = "mix"
"""The name of the harness that is several."""


@dataclass(frozen=True)
class Harnesses:
    """The harnesses of a run, by name, and how often each is drawn beside the others."""

    adapters: Mapping[str, HarnessAdapter]
    weights: Mapping[str, float]

    def draw(self, *, seed: int, step: int, task: str) -> str:
        """The name of the harness that works at a task in a step: the same whoever asks, and however often."""
        names = sorted(self.adapters)
        drawn = random.Random(f"{seed} {step} {task}")
        return drawn.choices(names, [self.weights[name] for name in names])[0]


def harnesses_of(harness: HarnessConfig) -> Harnesses:
    """What a recipe says under ``lego.harness``.

    Raises:
        HarnessError: for the one harness of a recipe that there is not, or that does not take its options.
        ConfigError: for a mix that cannot be.
    """
    if harness.name != MIX:
        if harness.mix:
            raise ConfigError(f"lego.harness.mix is for harness=mix, and the harness is {harness.name}")
        return Harnesses({harness.name: load_adapter(harness.name, harness.options)}, {harness.name: 1.0})
    if not harness.mix:
        raise ConfigError(
            "harness=mix needs the weight of each harness: 'lego.harness.mix={mini_swe_agent: 2, codex: 1}'"
        )
    for name, weight in harness.mix.items():
        if not (isinstance(weight, int | float) and math.isfinite(weight) and weight > 0):
            raise ConfigError(f"lego.harness.mix.{name}={weight} must be above 0: leave out what is not to be drawn")
    return Harnesses(load_harnesses(harness.mix, harness.options, "lego.harness.mix"), dict(harness.mix))


def load_harnesses(names: Iterable[str], options: Mapping[str, Any], key: str) -> dict[str, HarnessAdapter]:
    """Several harnesses, each with what ``options`` has under its name.

    Raises:
        ConfigError: in one line that begins with ``key``, or with the option's.
    """
    wanted = list(names)
    for name, given in options.items():
        if name not in wanted:
            raise ConfigError(
                f"lego.harness.options.{name}: {key} has no {name}; options stand under the name of their harness"
            )
        if given is not None and not isinstance(given, Mapping):
            raise ConfigError(f"lego.harness.options.{name}={given}: it must be a table of {name}'s own options")
    try:
        return {name: load_adapter(name, options.get(name)) for name in wanted}
    except HarnessError as error:
        raise ConfigError(f"{key}: {error}") from error


def one_harness(harness: HarnessConfig) -> str:
    """The name of the one harness that a single trial is worked in.

    Raises:
        ConfigError: for a mix.
    """
    if harness.name == MIX or harness.mix:
        raise ConfigError("harness=mix is for training: one trial takes one harness, harness=NAME")
    return harness.name


def check_mix(harness: HarnessConfig) -> None:
    """Check a mix before anything is made; the one harness of a recipe is left to who loads it.

    Raises:
        ConfigError: in one line that says what to change.
    """
    if harness.name == MIX or harness.mix:
        harnesses_of(harness)

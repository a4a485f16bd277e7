"""Limits of a trial and of its sandbox, from the typed part of a recipe."""

from __future__ import annotations

from lego_verl.config import LegoConfig
from lego_verl.trial.limits import TrialLimits
from sandbox.sandbox import Limits


def sandbox_limits(lego: LegoConfig) -> Limits:
    return Limits(memory_mb=lego.sandbox.memory_mb, processes=lego.sandbox.processes, disk_mb=lego.sandbox.disk_mb)


def trial_limits(lego: LegoConfig, *, context: int) -> TrialLimits:
    """``context`` bounds the tokens of one call, prompt and sampled together."""
    return TrialLimits(
        turns=lego.harness.turn_limit,
        tokens=lego.harness.token_limit,
        context=context,
        seconds=lego.harness.seconds,
        grading_seconds=lego.trial.grading_seconds,
    )

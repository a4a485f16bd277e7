"""Limits of a trial and of its sandbox, from the typed part of a recipe."""

from __future__ import annotations

from lego_verl.capture.parser import PARSERS, ToolParser
from lego_verl.capture.split import Split
from lego_verl.config import ConfigError, LegoConfig
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
        version_span=lego.trial.version_span,
    )


def untrained_splits(lego: LegoConfig) -> frozenset[Split]:
    """The reasons for which a segment is not trained."""
    kept = {Split.SUBAGENT: lego.capture.train_subagents, Split.SIDE_CALL: lego.capture.train_side_calls}
    return frozenset(split for split, trained in kept.items() if not trained)


def tool_parser(name: str) -> ToolParser:
    """The parser that a recipe names in ``lego.policy.tool_parser``.

    Raises:
        ConfigError: naming those there are.
    """
    if name not in PARSERS:
        raise ConfigError(f"lego.policy.tool_parser={name}: there is no such parser; it can be {', '.join(PARSERS)}")
    return PARSERS[name]()

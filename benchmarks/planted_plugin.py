"""Faults planted in a real run from outside, as a user's plug-in would be: ``actor_rollout_ref.model.external_lib``.

verl imports it in each of its processes, in place of this project's engine, which is imported here. ``PLANTED`` says
which faults, and from which step on: ``tool_use@2,grader@1``.
"""

from __future__ import annotations

import os
from dataclasses import replace
from typing import Any

from lego_verl.capture.parser import Parsed
from lego_verl.trial.outcome import Outcome
from lego_verl.workers import engine  # noqa: F401

_NAMED = (each.partition("@") for each in os.environ.get("PLANTED", "").split(",") if each)
FROM = {name: int(step) for name, _, step in _NAMED}
"""The step from which on each fault is there."""


class Mute:
    """A tool parser that finds no call any more: what the policy sampled stays, and is text to the harness."""

    def __init__(self, parser: Any) -> None:
        self._parser = parser

    def parse(self, text: str, **how: Any) -> Parsed:
        found = self._parser.parse(text, **how)
        spoken = text.replace("<tool_call>", "").replace("</tool_call>", "").strip()
        return replace(found, text=spoken or "Let me think.", calls=(), malformed=0)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._parser, name)


def _step_of(trial: str) -> int:
    return int(trial.split("-")[0])


def plant_tool_use() -> None:
    """Replies hold no tool call."""
    from lego_verl.workers import agent_loop

    run_trial = agent_loop.run_trial

    async def muted(bench: Any, *, trial: str, parser: Any, **rest: Any) -> Any:
        return await run_trial(
            bench, trial=trial, parser=Mute(parser) if _step_of(trial) >= FROM["tool_use"] else parser, **rest
        )

    agent_loop.run_trial = muted  # type: ignore[assignment]


def plant_grader() -> None:
    """Every third trial gets no verdict."""
    from lego_verl.trial.running import RunningTrial

    judge, count = RunningTrial.judge, 0

    async def failing(self: RunningTrial) -> None:
        nonlocal count
        await judge(self)
        if _step_of(self.name) >= FROM["grader"]:
            count += 1
            if count % 3 == 1:
                self.outcome, self.error = Outcome.GRADER_FAILED, "planted: no verdict"

    RunningTrial.judge = failing  # type: ignore[method-assign]


def plant_sync() -> None:
    """The rollout server gets the weights of the sync before, under the new number."""
    from lego_verl.workers.rollout.adapter import TransformersAdapter

    update = TransformersAdapter.update_weights

    async def skipping(self: Any, weights: Any, *args: Any, global_steps: int | None = None, **rest: Any) -> None:
        import torch
        from verl.workers.rollout.utils import ensure_async_iterator

        new = {name: tensor.detach().cpu().clone() async for name, tensor in ensure_async_iterator(weights)}
        old = getattr(self, "_planted", new)
        sent: dict[str, torch.Tensor] = old if (global_steps or 0) >= FROM["sync"] else new
        self._planted = sent
        await update(self, iter(sent.items()), *args, global_steps=global_steps, **rest)

    TransformersAdapter.update_weights = skipping  # type: ignore[method-assign]


PLANTS = {"tool_use": plant_tool_use, "grader": plant_grader, "sync": plant_sync}
for fault in FROM:
    PLANTS[fault]()

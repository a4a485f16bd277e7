"""Run scenarios, and say of each what holds and what was seen."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from lego_verl.capture.bytelevel import byte_renderer
from lego_verl.capture.parser import HermesParser
from lego_verl.harness_check.play import Play
from lego_verl.harness_check.scenario import Scenario
from lego_verl.harness_check.watch import Watched
from lego_verl.harness_check.wire import echo_heard, wire_of
from lego_verl.proxy.errors import BadRequest
from lego_verl.tasks.task import Task
from lego_verl.trial.bench import Bench
from lego_verl.trial.limits import TrialLimits
from lego_verl.trial.outcome import Treatment
from lego_verl.trial.record import FinishedTrial, write_trial
from lego_verl.trial.run import run_trial

SECONDS = 600.0
"""Wall time of a harness in one scenario, a slow reply aside."""
STOP_SECONDS = 30.0
"""A harness that is told to stop is gone by then."""
STOP_REQUESTS = 8
"""Requests that it may make after it was told; each costs nothing, but it is to hear."""
_SCRIPT_TOKENS = 1 << 24


@dataclass(frozen=True)
class Examined:
    """What one scenario came to."""

    name: str
    asks: str
    failed: Sequence[str]
    """What does not hold and must; empty: it passed."""
    seen: Mapping[str, Any]
    """What is compared across versions."""
    measured: Mapping[str, float]
    """What is shown and never compared: it differs from run to run."""
    error: str = ""

    @property
    def passed(self) -> bool:
        return not self.failed

    def as_dict(self) -> dict[str, Any]:
        return {"passed": self.passed, "failed": list(self.failed), **self.seen, "measured": dict(self.measured)}


@dataclass
class Examiner:
    """Runs scenarios on a bench whose server is a ``WatchingProxy`` of ``watched``."""

    bench: Bench
    task: Task
    watched: dict[str, Watched]
    slow: float = 120.0
    wire: dict[str, Any] = field(default_factory=dict)
    """What was heard in ``work``."""
    echo: dict[str, str] = field(default_factory=dict)
    """What was heard in ``history``."""
    keep: Path | None = None
    """Where every scenario's trial is written, to be looked at with ``python -m lego_verl.proof``."""

    async def examine(self, scenarios: Sequence[Scenario], done: Callable[[Examined], None]) -> list[Examined]:
        """Run them all, as many at once as the bench has slots; in order."""

        async def one(scenario: Scenario) -> Examined:
            examined = await self._one(scenario)
            done(examined)
            return examined

        return list(await asyncio.gather(*(one(scenario) for scenario in scenarios)))

    async def _one(self, scenario: Scenario) -> Examined:
        renderer, parser = byte_renderer(), HermesParser()
        play = Play(scenario.replies(self.bench.adapter.shell, self.slow), renderer, parser, overflow=scenario.overflow)
        watched = self.watched[scenario.name] = Watched(scenario, play)
        seconds = SECONDS + 2 * self.slow
        finished = await run_trial(
            self.bench,
            trial=scenario.name,
            task=replace(self.task, agent_timeout=seconds),
            policy=play,
            renderer=renderer,
            parser=parser,
            limits=TrialLimits(turns=scenario.turns, tokens=_SCRIPT_TOKENS, seconds=seconds),
        )
        if self.keep is not None:
            write_trial(self.keep / scenario.name, finished)
        failed = _failures(scenario, watched, finished)
        try:
            if scenario.name == "work":
                self.wire.update(wire_of(watched.heard))
            if scenario.name == "history" and finished.session is not None and finished.session.capture is not None:
                self.echo.update(echo_heard(finished.session.capture.replies, watched.answered()))
        except BadRequest as error:  # it was answered before: the dialect reads what it read
            failed.append(f"a request cannot be read: {error}")
        return Examined(
            scenario.name,
            scenario.asks,
            failed,
            _seen(scenario, watched, finished),
            _measured(watched, finished),
            finished.record.error,
        )


def _failures(scenario: Scenario, watched: Watched, finished: FinishedTrial) -> list[str]:
    record, proof = finished.record, finished.record.proof
    failed = []
    if not watched.heard:
        failed.append("it never called the model")
    elif not watched.answered():
        failed.append("no request of it could be answered")
    if proof["provenance"] != 1.0 or proof["context"] != 1.0:
        failed.append(f"the proof does not hold: provenance {proof['provenance']:.2%}, context {proof['context']:.2%}")
    if record.outcome not in scenario.outcomes:
        wanted = " or ".join(sorted(scenario.outcomes))
        failed.append(f"it ended as {record.outcome} and not as {wanted}")
    if record.reward != 1.0 and not (record.treatment is Treatment.DROP and record.outcome in scenario.outcomes):
        failed.append("the patch is not there" if not finished.patch else "the patch did not earn 1")
    told = watched.after_the_end()
    if scenario.told_at is not None and not told:
        failed.append("it was never told to stop")
    if len(told) > STOP_REQUESTS:
        failed.append(f"it asked {len(told)} times after the end (at most {STOP_REQUESTS})")
    if (took := _seconds_to_stop(watched)) is not None and took > STOP_SECONDS:
        failed.append(f"it took {took:.0f} s to stop (at most {STOP_SECONDS:g})")
    return failed


def _seen(scenario: Scenario, watched: Watched, finished: FinishedTrial) -> dict[str, Any]:
    record = finished.record
    statuses = Counter(str(each.status) for each in watched.heard if each.method == "POST" and not each.over)
    seen: dict[str, Any] = {
        "outcome": str(record.outcome),
        "statuses": dict(sorted(statuses.items())),
        "turns": watched.play.turn,
        "side_calls": watched.play.aside,
        "segments": record.segments,
        "splits": dict(sorted(record.splits.items())),
        "untrained": sorted(record.proof["untrained"]),
    }
    if scenario.odd is not None:
        seen["afterwards"] = "asks again" if watched.play.turn > scenario.odd + 1 else "ends"
    if scenario.overflow is not None or scenario.fault is not None:
        seen["afterwards"] = "goes on" if watched.heard and watched.heard[-1].status == 200 else "ends"
    if scenario.told_at is not None or scenario.turns < TrialLimits().turns:
        asked = len(watched.after_the_end())
        seen["after_the_end"] = asked
        seen["stops"] = "when it is told" if asked else "by itself"
    return seen


def _seconds_to_stop(watched: Watched) -> float | None:
    told = watched.after_the_end()
    return watched.ended - told[0].at if told and watched.ended is not None else None


def _measured(watched: Watched, finished: FinishedTrial) -> dict[str, float]:
    seconds = finished.record.seconds
    measured = {"harness": round(seconds["harness"], 1), "total": round(seconds["total"], 1)}
    if watched.heard:
        measured["first_request_bytes"] = len(watched.heard[0].body)
    if (took := _seconds_to_stop(watched)) is not None:
        measured["seconds_to_stop"] = round(took, 1)
    return measured

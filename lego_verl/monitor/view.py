"""What a run is doing now, read from its folder: no process has to answer for it."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lego_verl.monitor.run_folder import RunFolder


class Follower:
    """Reads a growing JSON-lines file, each record once."""

    def __init__(self, path: Path) -> None:
        self._path, self._offset = path, 0

    def new(self) -> Iterator[dict[str, Any]]:
        if not self._path.exists():
            return
        with self._path.open("rb") as stream:
            stream.seek(self._offset)
            for line in stream:
                if not line.endswith(b"\n"):
                    return  # still being written
                self._offset += len(line)
                try:
                    yield json.loads(line)
                except ValueError:
                    continue  # cut where the disk was full


@dataclass
class Now:
    """The step that is being collected."""

    step: int = 0
    split: str = "train"
    running: set[str] = field(default_factory=set)
    outcomes: Counter[str] = field(default_factory=Counter)
    rewards: list[float] = field(default_factory=list)
    sampled_tokens: int = 0
    retries: int = 0


class RunView:
    """A run's past steps and its current one. ``update`` reads what is new."""

    def __init__(self, run: RunFolder) -> None:
        self._metrics, self._events, self._heldout = (
            Follower(run.metrics),
            Follower(run.events),
            Follower(run.heldout),
        )
        self.run = run
        self.steps: list[dict[str, Any]] = []
        self.heldout: list[dict[str, Any]] = []
        self.now = Now()
        self.alerts: dict[str, dict[str, Any]] = {}
        """Those that are open, by name: ``step`` and what an event's data has."""
        self._news: list[dict[str, Any]] = []

    def take_news(self) -> list[dict[str, Any]]:
        """Alerts that opened or closed since it was last asked."""
        news, self._news = self._news, []
        return news

    def update(self) -> list[dict[str, Any]]:
        """Read what is new; return the steps that were finished since the last call."""
        for event in self._events.new():
            self._take(event)
        self.heldout.extend(self._heldout.new())
        finished = list(self._metrics.new())
        self.steps.extend(finished)
        return finished

    def _take(self, event: dict[str, Any]) -> None:
        if event["event"] == "alert":
            self._news.append(event)
            self.alerts.pop(event["name"], None)
            if event["state"] == "open":
                self.alerts[event["name"]] = event
            return
        if (event["step"], event["split"]) != (self.now.step, self.now.split):
            self.now = Now(step=event["step"], split=event["split"])
        now = self.now
        if event["event"] == "started":
            now.running.add(event["trial"])
        elif event["event"] == "retried":
            now.retries += 1
        elif event["event"] == "finished":
            now.running.discard(event["trial"])
            now.outcomes[event["outcome"]] += 1
            now.sampled_tokens += event["sampled_tokens"]
            if event["reward"] is not None:
                now.rewards.append(event["reward"])

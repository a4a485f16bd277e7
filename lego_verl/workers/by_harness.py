"""A step's trials counted for each harness apart: in a mix one may learn while another fails."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from lego_verl.trial.outcome import Outcome, Treatment


def by_harness(records: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Of each harness: ``trials``, ``dropped``, ``groups``; ``calls`` and ``sampled_tokens`` a trial that was graded;
    and ``solve_rate`` and ``reward`` of these.

    Args:
        records: ``TrialRecord.as_dict`` of each trial that ended.
    """
    found: dict[str, list[Mapping[str, Any]]] = {}
    for record in records:
        found.setdefault(str(record.get("harness") or "unknown"), []).append(record)
    return {name: _counted(found[name]) for name in sorted(found)}


def _counted(records: list[Mapping[str, Any]]) -> dict[str, float]:
    graded = [record for record in records if Outcome(record["outcome"]).treatment is not Treatment.DROP]
    counts: dict[str, float] = {
        "trials": len(records),
        "dropped": len(records) - len(graded),
        "groups": len({record["group"] for record in records}),
    }
    if graded:
        rewards = [float(record["reward"]) for record in graded]
        counts["solve_rate"] = sum(reward >= 1.0 for reward in rewards) / len(graded)
        counts["reward"] = sum(rewards) / len(graded)
        counts["calls"] = sum(int(record.get("calls", 0)) for record in graded) / len(graded)
        counts["sampled_tokens"] = sum(int(record.get("sampled_tokens", 0)) for record in graded) / len(graded)
    return counts

"""Behaviour: what the agent does, by step; whether it changes; where trials end."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import APIRouter, Response

from lego_verl.dashboard.api.common import Run, Split, opened, reply
from lego_verl.monitor import queries
from lego_verl.monitor.behaviour.measures import MEASURES, Measure

router = APIRouter(prefix="/api/runs/{run}")

KINDS = ("reads", "searches", "edits", "tests", "runs", "submits", "others")
_OF_KINDS = tuple(Measure(kind, kind, "tool_calls", "share", f"Acts of a tool call: {kind}.") for kind in KINDS)


@router.get("/behaviour")
def behaviour(run: Run, split: Split = "train", harness: str | None = None, tasks: str = "all") -> Response:
    """Every measure by step; ``kinds``: acts of each kind for one tool call; ``cohort``: tasks that are in both the
    first and the last third of the steps.

    Args:
        tasks: ``cohort``: only those, so that a change is none of which tasks came when.
    """
    with opened(run) as db:
        same = queries.cohort(db, split=split, harness=harness)
        chosen = same if tasks == "cohort" else None
        rows = queries.behaviour(db, split=split, harness=harness, tasks=chosen)
        kinds = queries.behaviour(db, split=split, harness=harness, tasks=chosen, measures=_OF_KINDS)
        first, last = queries.thirds(db, split)
    measures: list[dict[str, Any]] = [asdict(measure) for measure in MEASURES]
    return reply(
        {"measures": measures, "rows": rows, "kinds": kinds, "kind_names": KINDS, "cohort": len(same),
         "thirds": [first, last]}
    )  # fmt: skip


@router.get("/behaviour/trends")
def trends(run: Run, split: Split = "train", harness: str | None = None) -> Response:
    """Of every measure whether it changes, over steps and on the same tasks, in plain words."""
    with opened(run) as db:
        return reply({"trends": queries.trends(db, split=split, harness=harness)})


@router.get("/behaviour/endings")
def endings(run: Run, split: Split = "train") -> Response:
    """What trials did last, by step and outcome."""
    with opened(run) as db:
        return reply({"rows": queries.where_they_end(db, split=split)})

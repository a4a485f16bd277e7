"""Tasks: the grid of solve rates, and how each task went."""

from __future__ import annotations

from fastapi import APIRouter, Response

from lego_verl.dashboard.api.common import Run, Split, opened, reply
from lego_verl.monitor import queries

router = APIRouter(prefix="/api/runs/{run}")


@router.get("/tasks")
def tasks(run: Run, split: Split = "train", harness: str | None = None) -> Response:
    """``queries.tasks``, and by step the groups without variance."""
    with opened(run) as db:
        grid = queries.tasks(db, split=split, harness=harness)
        by_step = queries.learning(db, split=split, by_harness=harness is not None)
    shown = ("step", "groups", "zero_variance")
    steps = [{name: row[name] for name in shown} for row in by_step if harness in (None, row.get("harness"))]
    return reply({"tasks": grid, "steps": steps})

"""Learning: solve rates and any other metric, by step."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Response

from lego_verl.dashboard.api.common import Run, Split, opened, reply
from lego_verl.monitor import queries
from lego_verl.monitor.queries.read import Row, rate

router = APIRouter(prefix="/api/runs/{run}")


@router.get("/learning")
def learning(run: Run, by_harness: bool = False, window: int = Query(1, ge=1, le=1000)) -> Response:
    """Solve rates by step (and harness) of both splits; ``smoothed`` pools the trials of so many steps that came
    before and this one: an interval of it is one of counts, too."""
    with opened(run) as db:
        found = {split: queries.learning(db, split=split, by_harness=by_harness) for split in ("train", "heldout")}
    for rows in found.values():
        _smooth(rows, window)
    return reply(found)


@router.get("/metrics/names")
def names(run: Run) -> Response:
    with opened(run) as db:
        return reply({"names": queries.metric_names(db)})


@router.get("/metrics")
def metrics(run: Run, name: Annotated[tuple[str, ...], Query(max_length=24)] = (), split: Split = "train") -> Response:
    """Metrics by step; a name that ends in ``/`` stands for all that begin so."""
    with opened(run) as db:
        return reply({"curves": queries.curves(db, name, split)})


def _smooth(rows: list[Row], window: int) -> None:
    last: dict[Any, list[Row]] = {}
    for row in rows:
        pooled = last.setdefault(row.get("harness"), [])
        pooled.append(row)
        del pooled[:-window]
        row["smoothed"] = rate(sum(each["solved"] or 0 for each in pooled), sum(each["graded"] for each in pooled))

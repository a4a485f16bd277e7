"""Overview: whether a run is alive, where it is, how it goes."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from lego_verl.dashboard.api.common import Run, opened, planned, reply, shared
from lego_verl.monitor import queries
from lego_verl.monitor.alerts import open_alerts
from lego_verl.monitor.behaviour.measures import MEASURES
from lego_verl.monitor.disk import disk_trouble
from lego_verl.status.trouble import last_error

router = APIRouter(prefix="/api/runs/{run}")


@router.get("/overview")
def overview(run: Run, request: Request) -> Response:
    """``queries.overview``, the open alerts, whether it is alive, and what is wrong, a line each (``notes``)."""
    notes = [note for note in (last_error(run), disk_trouble(run)) if note]
    with opened(run) as db:
        view = queries.overview(db, total_steps=planned(run)["total_steps"])
        view["open_alerts"] = open_alerts(db)
    return reply({**view, "alive": shared(request).alive(run), "notes": notes})


@router.get("/changes")
def changes(run: Run) -> Response:
    """Measures of behaviour with a trend that chance hardly makes: on the same tasks where they came again."""
    with opened(run) as db:
        found = queries.trends(db)
    rows = []
    for measure in MEASURES:
        trend = found[measure.name]
        for where in ("same_tasks", "steps"):
            if trend[where]["direction"] in ("rises", "falls"):
                about = {"measure": measure.name, "what": measure.says, "unit": measure.unit, "over": where}
                rows.append({**about, **trend[where]})
                break
    return reply({"changes": rows, "looked_at": len(MEASURES)})


@router.get("/events")
def events(
    run: Run,
    kind: Annotated[tuple[str, ...], Query(max_length=20)] = (),
    after: int = Query(0, ge=0),
    limit: int = Query(50, ge=1, le=1000),
) -> Response:
    """The newest events, the newest first."""
    with opened(run) as db:
        return reply({"events": queries.events(db, kinds=kind, after=after, limit=limit)})

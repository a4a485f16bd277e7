"""Time: where it went."""

from __future__ import annotations

from fastapi import APIRouter, Response

from lego_verl.dashboard.api.common import Run, Split, opened, planned, reply
from lego_verl.monitor import queries

router = APIRouter(prefix="/api/runs/{run}")


@router.get("/time")
def times(run: Run, split: Split = "train") -> Response:
    """``queries.times``, and the slots that trials ran in (``lego.sandbox.slots``)."""
    with opened(run) as db:
        view = queries.times(db, split=split)
    return reply({**view, "slots": planned(run)["slots"]})

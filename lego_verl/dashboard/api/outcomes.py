"""Outcomes: how trials ended, what was dropped and why, and the trials behind each number."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Query, Response

from lego_verl.dashboard.api.common import Refused, Run, Split, opened, reply
from lego_verl.dashboard.outcome_texts import outcome_texts
from lego_verl.monitor import queries
from lego_verl.trial.outcome import Outcome

router = APIRouter()


@router.get("/api/outcomes")
def texts() -> Response:
    """Every outcome: what training does with it, and what docs/07 says of it."""
    said = outcome_texts()
    return reply(
        {
            "outcomes": [
                {
                    "outcome": str(each),
                    "treatment": str(each.treatment),
                    "retried": each.retried,
                    **said.get(str(each), {}),
                }
                for each in Outcome
            ]
        }
    )


@router.get("/api/runs/{run}/outcomes")
def outcomes(run: Run, split: Split = "train", harness: str | None = None) -> Response:
    """By step how trials ended, whether they were trained, why not; ``last_acts``: what they did last; and the
    ledger's sum: what was submitted is trained, dropped, or pending."""
    with opened(run) as db:
        rows = queries.outcomes(db, split=split, harness=harness)
        last = queries.where_they_end(db, split=split) if harness is None else []
    ledger = {"submitted": 0, "trained": 0, "dropped": 0, "pending": 0}
    for row in rows:
        ledger["submitted"] += row["trials"]
        ledger[_BUCKET.get(row["trained"], "pending")] += row["trials"]
    return reply({"rows": rows, "last_acts": last, "ledger": ledger})


_BUCKET = {1: "trained", 0: "dropped"}


@router.get("/api/runs/{run}/trials")
def trials(
    run: Run,
    split: Split | None = None,
    step: int | None = Query(None, ge=0),
    first_step: int | None = Query(None, ge=0),
    last_step: int | None = Query(None, ge=0),
    outcome: str | None = None,
    why_not: str | None = None,
    task: str | None = None,
    harness: str | None = None,
    group_id: str | None = None,
    state: str | None = Query(None, pattern="^(running|finished)$"),
    trained: int | None = Query(None, ge=0, le=1),
    slowest: bool = False,
    limit: int = Query(50, ge=1, le=1000),
    offset: int = Query(0, ge=0, le=10_000_000),
) -> Response:
    """Trials that fit, the newest first; ``more``: whether others follow."""
    if outcome is not None and outcome not in list(Outcome):
        raise Refused(422, f"outcome: there is none of this name; there are {', '.join(Outcome)}")
    chosen: dict[str, Any] = {
        "split": split, "step": step, "first_step": first_step, "last_step": last_step, "outcome": outcome,
        "why_not": why_not, "task": task, "harness": harness, "group_id": group_id, "state": state, "trained": trained,
    }  # fmt: skip
    with opened(run) as db:
        rows = queries.trials(db, limit=limit + 1, offset=offset, slowest=slowest, **chosen)
    return reply({"trials": rows[:limit], "more": len(rows) > limit, "offset": offset, "limit": limit})

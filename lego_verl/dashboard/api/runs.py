"""Runs: which there are, and what a page must know of one before anything is shown."""

from __future__ import annotations

import sqlite3
from typing import Any

from fastapi import APIRouter, Request, Response

from lego_verl.dashboard.api.common import Run, Shared, opened, planned, reply, shared
from lego_verl.dashboard.live import standing
from lego_verl.monitor import queries
from lego_verl.monitor.queries.read import all_rows
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.monitor.store_sums import steps

router = APIRouter(prefix="/api/runs")


@router.get("")
def runs(request: Request) -> Response:
    """Every run, the newest first, each with where it is."""
    about = shared(request)
    return reply({"runs": [{"name": name, **_short(about, run)} for name, run in about.runs.all().items()]})


@router.get("/{run}")
def run(run: Run, request: Request) -> Response:
    """One run: how far it is, splits, harnesses and steps to choose from, ``slots`` that trials run in."""
    about = shared(request)
    found: dict[str, Any] = {
        "name": request.path_params["run"],
        "path": str(run.path),
        "alive": about.alive(run),
        "store": about.indexer.progress(run).as_dict(),
        **planned(run),
        "splits": [],
        "harnesses": [],
        "first_step": None,
        "last_step": None,
    }
    if run.store.exists():
        with opened(run) as db:
            found |= standing(db) | _choices(db)  # first how far it was: what comes meanwhile is news
    return reply(found)


def _short(about: Shared, run: RunFolder) -> dict[str, Any]:
    progress = about.indexer.want(run)
    found: dict[str, Any] = {"path": str(run.path), "alive": about.alive(run), "store": progress.as_dict()}
    found |= {"step": None, "total_steps": None, "solve_rate": None, "last_event": None}
    if run.store.exists():
        try:
            with queries.read_store(run.store) as db:
                seen = queries.overview(db, total_steps=planned(run)["total_steps"])
        except sqlite3.Error as error:
            return found | {"error": str(error)}
        found |= {name: seen[name] for name in ("step", "total_steps", "solve_rate", "last_event")}
    return found


def _choices(db: sqlite3.Connection) -> dict[str, Any]:
    rows = all_rows(
        db,
        f"SELECT split, harness, min(step) AS first, max(step) AS last FROM {steps('step', 'split', 'harness')} "
        "GROUP BY split, harness",
    )
    return {
        "splits": sorted({row["split"] for row in rows}, reverse=True),
        "harnesses": sorted({row["harness"] for row in rows if row["harness"]}),
        "first_step": min((row["first"] for row in rows), default=None),
        "last_step": max((row["last"] for row in rows), default=None),
    }

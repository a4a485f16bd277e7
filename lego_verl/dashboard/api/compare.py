"""Compare: two runs, two spans of steps, or two harnesses; one task's trials side by side."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from lego_verl.dashboard.api.common import Run, Split, opened, other_run, recipe_of, reply
from lego_verl.dashboard.api.recipe import told_apart
from lego_verl.monitor import queries
from lego_verl.monitor.queries.difference import differences, moments, same_tasks
from lego_verl.monitor.run_folder import RunFolder

router = APIRouter(prefix="/api/runs/{run}")

Step = Annotated[int | None, Query(ge=0)]


@router.get("/compare")
def compare(
    request: Request,
    run: Run,
    other: str | None = None,
    split: Split = "train",
    first_step: Step = None,
    last_step: Step = None,
    harness: str | None = None,
    other_split: Split = "train",
    other_first_step: Step = None,
    other_last_step: Step = None,
    other_harness: str | None = None,
) -> Response:
    """Both sides, each measure's difference with its interval, and the tasks that both worked on.

    Args:
        other: the second side's run; None: this one.
    """
    second = run if other is None else other_run(request, other)
    chosen: list[tuple[RunFolder, dict[str, Any]]] = [
        (run, {"first_step": first_step, "last_step": last_step, "split": split, "harness": harness}),
        (
            second,
            {
                "first_step": other_first_step,
                "last_step": other_last_step,
                "split": other_split,
                "harness": other_harness,
            },
        ),
    ]
    sides, sums = [], []
    for folder, where in chosen:
        with opened(folder) as db:
            sides.append(queries.side(db, **where))
            sums.append(moments(db, **where))
    tasks = [side.pop("tasks") for side in sides]
    return reply(
        {
            "sides": sides,
            "measures": differences(sums[0], sums[1]),
            "same_tasks": same_tasks(tasks[0], tasks[1]),
            "recipe": None if second.path == run.path else told_apart(recipe_of(run), recipe_of(second)),
        }
    )


@router.get("/compare/task")
def task(
    request: Request,
    run: Run,
    task: str,
    other: str | None = None,
    limit: int = Query(60, ge=1, le=200),
) -> Response:
    """One task's trials, the newest first, of one run or of two."""
    found = {}
    for name, folder in {"first": run, "second": None if other is None else other_run(request, other)}.items():
        if folder is None:
            continue
        with opened(folder) as db:
            found[name] = queries.trials_of_task(db, task, limit=limit)
    return reply({"task": task, "limit": limit, **found})


@router.get("/compare/tasks")
def tasks(run: Run) -> Response:
    """The names of all tasks, to choose from."""
    with opened(run) as db:
        rows = db.execute(
            "WITH RECURSIVE n(task) AS (SELECT min(task) FROM trials UNION ALL SELECT (SELECT min(t.task) FROM "
            "trials t WHERE t.task > n.task) FROM n WHERE n.task IS NOT NULL) SELECT task FROM n WHERE task IS NOT NULL"
        )
        return reply({"tasks": [row[0] for row in rows]})

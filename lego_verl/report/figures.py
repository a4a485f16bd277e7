"""Which charts a report has, each with its table and what it says."""

from __future__ import annotations

import itertools
import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from lego_verl.monitor import queries
from lego_verl.monitor.behaviour.measures import BY_NAME
from lego_verl.report.charts import COLOURS, Series, bar_chart, legend, line_chart

_MOST_POINTS = 160
"""Of a chart and its table; longer runs are shown by means over steps."""
_COLOURS = {"solved": 2, "unsolved": 1}
_PHASES = ("queued", "start", "harness", "generation", "patch", "grading")
_BEHAVIOUR = ("turns", "sampled_tokens", "silent_turns", "malformed_calls", "checked_after_edit", "tests")


@dataclass(frozen=True)
class Figure:
    """A chart and the same as a table."""

    name: str
    title: str
    says: str
    chart: Markup
    legend: Markup
    columns: Sequence[str] = ()
    rows: Sequence[Sequence[str]] = field(default_factory=list)


def figures(db: sqlite3.Connection) -> list[Figure]:
    """All of them, in the order of the page; those of which nothing is known are left out."""
    made = [_solve_rate(db), _outcomes(db), _signal(db), *_behaviour(db), *_curves(db), _time(db)]
    return [each for each in made if each is not None]


def _solve_rate(db: sqlite3.Connection) -> Figure | None:
    rows = [row for row in queries.learning(db) if row["solve_rate"]]
    held = [row for row in queries.learning(db, split="heldout") if row["solve_rate"]]
    if not rows and not held:
        return None
    thin = _thinned([row["step"] for row in rows])
    graded = {row["step"]: row["solve_rate"] for row in rows}
    band = [
        (_middle(steps), *(sum(graded[step][end] for step in steps) / len(steps) for end in ("low", "high")))
        for steps in thin
    ]
    train = _mean_points({step: value["value"] for step, value in graded.items()}, thin)
    series = [Series("training tasks", train, band, 0)]
    if held:
        series.append(Series("held-out tasks", [(row["step"], row["solve_rate"]["value"]) for row in held], colour=1))
    says = "Share of the graded trials whose hidden tests passed; the band is the 95 % interval of one step (Wilson)."
    return _figure("solve-rate", "Solve rate", says, line_chart("Solve rate", series, low=0.0, high=1.0), series)


def _outcomes(db: sqlite3.Connection) -> Figure | None:
    counts: dict[str, Counter[int]] = {}
    for row in queries.outcomes(db):
        counts.setdefault(row["outcome"], Counter())[row["step"]] += row["trials"]
    if not counts:
        return None
    steps = sorted({step for each in counts.values() for step in each})
    often = sorted(counts, key=lambda name: (name not in _COLOURS, -counts[name].total(), name))
    counts = {name: counts[name] for name in often}
    return _bars("outcomes", "How trials ended", "Trials of each step by their outcome (docs/07).", counts, steps)


def _signal(db: sqlite3.Connection) -> Figure | None:
    shares = {row["step"]: (row["zero_variance"] or 0) / row["groups"] for row in queries.learning(db) if row["groups"]}
    says = "Share of the groups whose trials all got the same reward: they teach nothing."
    return _lines("signal", "Groups without a signal", says, {"without variance": shares}, low=0.0, high=1.0)


def _behaviour(db: sqlite3.Connection) -> list[Figure | None]:
    rows = queries.behaviour(db)
    made: list[Figure | None] = []
    for name in _BEHAVIOUR:
        measure = BY_NAME[name]
        values = {row["step"]: row[name] for row in rows}
        title = name.replace("_", " ").capitalize()
        share = measure.unit == "share"
        made.append(_lines(name, title, measure.says, {title: values}, low=0.0, high=1.0 if share else None))
    return made


def _curves(db: sqlite3.Connection) -> list[Figure | None]:
    fresh, share = "alignment/by_lag/0/pearson_probabilities", "alignment/overall/effective_share"
    wanted = ("entropy", "gradient_norm", "pearson", fresh, share, "monitoring_share")
    curves = {name: dict(points) for name, points in queries.curves(db, wanted).items()}
    chosen = fresh if fresh in curves else "pearson"
    return [
        _lines("entropy", "Entropy", "Of the policy, nats a token.", {"entropy": curves.get("entropy", {})}, low=0.0),
        _lines("gradient", "Gradient norm", "Of the actor.", {"gradient norm": curves.get("gradient_norm", {})}, low=0),
        _lines("alignment", "Alignment", "Correlation of token probabilities, rollout against trainer; 1 is the same.",
               {"Pearson": curves.get(chosen, {})},
               low=min([0.999, *(value for value in curves.get(chosen, {}).values() if value is not None)]), high=1.0),
        _lines("effective", "Effective sample", "Of the importance weights, as a share of the loss tokens.",
               {"effective share": curves.get(share, {})}, low=0.0, high=1.0),
        _lines("monitoring", "Cost of monitoring", "Seconds for what is for people, as a share of the step.",
               {"share": curves.get("monitoring_share", {})}, low=0.0),
    ]  # fmt: skip


def _time(db: sqlite3.Connection) -> Figure | None:
    rows = queries.times(db)["trials"]
    counts = {phase: {row["step"]: row[phase] or 0.0 for row in rows} for phase in _PHASES}
    says = "Seconds of all trials of a step, by phase; many run at once."
    return _bars("time", "Where trials spent their time", says, counts, [row["step"] for row in rows])


def _lines(
    name: str,
    title: str,
    says: str,
    values: Mapping[str, Mapping[int, float | None]],
    *,
    low: float | None = None,
    high: float | None = None,
) -> Figure | None:
    steps = sorted({step for each in values.values() for step, value in each.items() if value is not None})
    if not steps:
        return None
    thin = _thinned(steps)
    series = [
        Series(label, _mean_points(points, thin), colour=number)
        for number, (label, points) in enumerate(values.items())
    ]
    return _figure(name, title, says, line_chart(title, series, low=low, high=high), series)


def _bars(
    name: str, title: str, says: str, counts: Mapping[str, Mapping[int, float]], steps: Sequence[int]
) -> Figure | None:
    if not steps:
        return None
    thin = _thinned(steps)
    series = [
        Series(label, _mean_points({step: points.get(step, 0) for step in steps}, thin), colour=colour)
        for (label, points), colour in zip(counts.items(), _colours(counts), strict=True)
    ]
    return _figure(name, title, says, bar_chart(title, series), series)


def _colours(names: Iterable[str]) -> list[int]:
    """The same for an outcome in every report; the rest as they come."""
    free = (colour for colour in itertools.cycle(range(COLOURS)) if colour not in _COLOURS.values())
    return [_COLOURS[name] if name in _COLOURS else next(free) for name in names]


def _figure(name: str, title: str, says: str, chart: Markup, series: Sequence[Series]) -> Figure:
    steps = sorted({step for each in series for step, _ in each.points})
    columns = [dict(each.points) for each in series]
    rows = [[f"{step:g}", *(_number(column.get(step)) for column in columns)] for step in steps]
    return Figure(name, title, says, chart, legend(series), ["step", *(each.name for each in series)], rows)


def _thinned(steps: Sequence[int]) -> list[list[int]]:
    """Steps in blocks, so that there are no more than can be told apart."""
    size = -(-len(steps) // _MOST_POINTS) or 1
    return [list(steps[start : start + size]) for start in range(0, len(steps), size)]


def _mean_points(values: Mapping[int, float | None], thin: Sequence[Sequence[int]]) -> list[tuple[float, float | None]]:
    points: list[tuple[float, float | None]] = []
    for steps in thin:
        known: list[float] = [value for step in steps if (value := values.get(step)) is not None]
        points.append((_middle(steps), sum(known) / len(known) if known else None))
    return points


def _middle(steps: Sequence[int]) -> float:
    return (steps[0] + steps[-1]) / 2


def _number(value: Any) -> str:
    return "" if value is None else f"{value:.5g}"

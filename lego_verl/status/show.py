"""A run in a terminal: where it is, how it goes, what changed, and what to look at."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from lego_verl.monitor import queries
from lego_verl.monitor.alerts import open_alerts
from lego_verl.monitor.behaviour.measures import MEASURES
from lego_verl.monitor.display import alert_line
from lego_verl.monitor.store_text import one_line

_PLAIN: dict[str, Any] = {"box": None, "pad_edge": False, "header_style": "bold", "padding": (0, 1)}
_STEPS, _ALERTS = 12, 5
_QUIET_SECONDS = 600.0
_SHADES = " ▁▂▃▄▅▆▇█"


def show_status(
    db: sqlite3.Connection, console: Console, *, name: str, total_steps: int | None, alive: bool, notes: Sequence[str]
) -> None:
    """Everything at a glance. Texts of trials come from the store, which holds none that a terminal obeys.

    Args:
        notes: what is wrong, a line each.
    """
    view = queries.overview(db, total_steps=total_steps)
    console.print(_headline(view, name, alive))
    for note in notes:
        console.print(Text.assemble(("! ", "bold red"), one_line(note, 400)), soft_wrap=True)
    for alert in open_alerts(db)[-_ALERTS:]:
        console.print(alert_line(alert), soft_wrap=True)
    for other in [each for each in view["alerts"] if each["kind"] != "alert"][:_ALERTS]:
        told = other["data"].get("message") or other["data"].get("error") or ""
        console.print(
            Text.assemble((f"{other['kind']} ", "bold yellow"), f"step {other['step']}: {one_line(told, 300)}")
        )
    rows = queries.learning(db)
    if rows:
        console.print(_steps(db, rows))
    for title, lines in (("how trials ended", _endings(db, view["step"])), ("what changed", _changes(db))):
        if lines:
            console.print(Text(title, style="bold"))
            for line in lines:
                console.print(Text(f"  {line}"), soft_wrap=True)
    _running(db, console)


def _headline(view: Mapping[str, Any], name: str, alive: bool) -> Text:
    total = f"/{view['total_steps']}" if view["total_steps"] else ""
    text = Text.assemble((one_line(name), "bold"), f"  step {view['step']}{total}  ")
    finished = view["total_steps"] is not None and view["step"] >= view["total_steps"]
    silent = view["silent_seconds"]
    if alive and silent is not None and silent > _QUIET_SECONDS:
        text.append(f"running, silent for {_long(silent)}", style="yellow")
    elif alive:
        text.append("running", style="green")
    else:
        text.append("finished" if finished else "not running on this machine", style="green" if finished else "yellow")
    if silent is not None and not alive:
        text.append(f", last heard of {_long(silent)} ago")
    if view["seconds_a_step"] is not None:
        text.append(f"  {_long(view['seconds_a_step'])} a step")
    if alive and view["seconds_left"]:
        text.append(f", about {_long(view['seconds_left'])} left")
    if rate := view["solve_rate"]:
        text.append(f"\nsolved {_interval(rate)} in {_last(view['recent_steps'])}")
        if before := view["solve_rate_before"]:
            text.append(f", {_interval(before)} in the first")
    if held := view["heldout"]:
        text.append(f"; held-out {_interval(held['solve_rate'])} at step {held['step']}")
    for metric, shown in (("pearson", ".5f"), ("entropy", ".2f")):
        if (value := view["metrics"][metric]) is not None:
            text.append(f"; {metric} {value['value']:{shown}}")
    return text


def _steps(db: sqlite3.Connection, rows: Sequence[Mapping[str, Any]]) -> Table:
    """The newest steps; the curve of all of them is in the title."""
    rates = [row["solve_rate"]["value"] if row["solve_rate"] else None for row in rows]
    table = Table(title=f"solved {_curve(rates)}", title_justify="left", **_PLAIN)
    for name in (
        "step",
        "solved",
        "interval",
        "trials",
        "dropped",
        "no signal",
        "turns",
        "silent",
        "checked",
        "tokens",
    ):
        table.add_column(name, justify="right")
    behaviour = {row["step"]: row for row in queries.behaviour(db)}
    for row in rows[-_STEPS:]:
        acts, rate = behaviour.get(row["step"], {}), row["solve_rate"]
        table.add_row(
            str(row["step"]),
            _number(rate and rate["value"], ".2f"),
            f"{rate['low']:.2f}-{rate['high']:.2f}" if rate else "-",
            str(row["trials"]),
            str(row["dropped"] or 0),
            f"{row['zero_variance'] or 0}/{row['groups']}",
            _number(acts.get("turns"), ".1f"),
            _number(acts.get("silent_turns"), ".0%"),
            _number(acts.get("checked_after_edit"), ".0%"),
            str(row["sampled_tokens"] or 0),
        )
    return table


def _endings(db: sqlite3.Connection, step: int) -> list[str]:
    ended: Counter[str] = Counter()
    last: Counter[str] = Counter()
    for row in queries.where_they_end(db):
        if row["step"] > step - 5:
            ended[row["outcome"]] += row["trials"]
            last[row["last_act"] or "not known"] += row["trials"]
    if not ended:
        return []
    told = "  ".join(f"{name} {count}" for name, count in ended.most_common())
    return [told, "last turn: " + "  ".join(f"{name} {count}" for name, count in last.most_common(8))]


def _changes(db: sqlite3.Connection) -> list[str]:
    """Measures with a trend that chance hardly makes, on the same tasks where they came again."""
    lines = []
    found = queries.trends(db)
    for measure in MEASURES:
        trend = found[measure.name]
        for where, how in (("same_tasks", "the same tasks"), ("steps", "all steps")):
            if trend[where]["direction"] in ("rises", "falls"):
                lines.append(f"{measure.name}: {trend[where]['says']} [{how}]")
                break
    return lines


def _running(db: sqlite3.Connection, console: Console) -> None:
    running = queries.times(db)["running"]
    if not running:
        return
    told = ", ".join(f"{row['trial']} ({row['harness'] or row['task']})" for row in running[:3])
    console.print(Text(f"{len(running)} trials without an ending, the oldest: {one_line(told, 200)}"), soft_wrap=True)


def _last(steps: int) -> str:
    return "the last step" if steps == 1 else f"the last {steps} steps"


def _curve(values: Sequence[float | None], width: int = 60) -> str:
    """Shares (0 to 1) as a line of blocks, each the mean of its steps; a blank where nothing is known."""
    size = max(1, -(-len(values) // width))
    parts = [[v for v in values[start : start + size] if v is not None] for start in range(0, len(values), size)]
    return "".join(_SHADES[1 + min(int(sum(p) / len(p) * 8), 7)] if p else " " for p in parts)


def _interval(rate: Mapping[str, Any] | None) -> str:
    return "-" if rate is None else f"{rate['value']:.2f} ({rate['low']:.2f}-{rate['high']:.2f})"


def _number(value: float | None, shown: str) -> str:
    return "-" if value is None else f"{value:{shown}}"


def _long(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.1f} h" if seconds < 172800 else f"{seconds / 86400:.1f} days"

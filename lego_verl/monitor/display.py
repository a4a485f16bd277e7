"""What a person sees while a run trains: a table that grows by a row a step, and what happens right now."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from lego_verl.monitor.clock_watch import ClockWatch
from lego_verl.monitor.store_text import one_line
from lego_verl.monitor.view import RunView

_SOLVED, _FAILED = "green", "yellow"
_SHOWN_ALERTS = 5


class Display:
    """Shows a ``RunView``.

    Args:
        total_steps: of the whole run.
        trials: of one step.
        style: ``live`` redraws a table; ``lines`` prints a line a step, for logs and pipes.
        clock: tells what only a clock shows; None: nobody looks.
    """

    def __init__(
        self,
        view: RunView,
        console: Console,
        *,
        total_steps: int,
        trials: int,
        style: str,
        clock: ClockWatch | None = None,
    ) -> None:
        self._view, self._console = view, console
        self._total_steps, self._trials = total_steps, trials
        self._started = time.monotonic()
        self._clock = clock
        self._told: set[tuple[Any, ...]] = set()
        self._live = Live(console=console, refresh_per_second=4, transient=False) if style == "live" else None

    def __enter__(self) -> Display:
        if self._live is not None:
            self._live.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if self._live is not None:
            alerts = (alert_line(each) for each in self._view.alerts.values())
            self._live.update(Group(self._table(), *alerts))
            self._live.__exit__(*error)
        if self._clock is not None:
            self._clock.close()

    def refresh(self) -> None:
        """Read what is new and show it."""
        finished = self._view.update()
        # Not only by the run's events: on a disk that is full there are none.
        by_clock = self._clock.look(max(self._view.now.step, 1)) if self._clock is not None else []
        if self._live is not None:
            alerts = list(self._view.alerts.values())[-_SHOWN_ALERTS:]
            self._live.update(Group(self._table(), *(alert_line(each) for each in alerts), self._now()))
            return
        for step in finished:
            self._console.print(_line(step, self._total_steps), highlight=False, soft_wrap=True)
        for each in [*by_clock, *self._view.take_news()]:
            news = (each["name"], each["state"], each["message"])
            if news not in self._told:
                self._told.add(news)
                self._console.print(alert_line(each), soft_wrap=True)

    def _table(self) -> RenderableType:
        return steps_table(self._view.steps[-20:])

    def _now(self) -> RenderableType:
        now = self._view.now
        if now.step == 0 and not now.running and not now.outcomes:
            return Text(f"starting verl ({time.monotonic() - self._started:.0f} s) …", style="dim")
        done = sum(now.outcomes.values())
        what = "held-out tasks" if now.split == "heldout" else f"step {now.step}/{self._total_steps}"
        text = Text.assemble((f"{what}: ", "bold"), f"{len(now.running)} running, {done}")
        text.append(f" of {self._trials} finished" if now.split == "train" else " finished")
        if now.rewards:
            text.append(f", solved {sum(r >= 1 for r in now.rewards) / len(now.rewards):.2f}")
        for outcome, count in now.outcomes.most_common():
            text.append(f"  {outcome} {count}", style=_SOLVED if outcome == "solved" else _FAILED)
        if now.retries:
            text.append(f"  retried {now.retries}", style="red")
        text.append(f"  {now.sampled_tokens} tokens", style="dim")
        return text


def alert_line(alert: Mapping[str, Any]) -> Text:
    """An alert in one line: ``step`` and what an event's data has."""
    over = alert.get("state") == "closed"
    style = "green" if over else "bold red" if alert.get("severity") == "critical" else "bold yellow"
    where = "" if alert.get("step") is None else f"step {alert['step']}: "
    return Text.assemble(("✓ " if over else "! ", style), where, (one_line(alert.get("message", ""), 600), style))


def steps_table(steps: list[dict[str, Any]]) -> Table:
    """One row a step: how it went, and whether its numbers can be trusted."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
    for name in ("step", "solved", "held-out", "reward", "trials", "dropped", "outcomes"):
        table.add_column(name, justify="left" if name == "outcomes" else "right")
    for name in ("loss tokens", "proof", "pearson", "entropy", "seconds"):
        table.add_column(name, justify="right")
    for step in steps:
        heldout = step.get("heldout_solve_rate")
        others = {k: v for k, v in step["outcomes"].items() if k not in ("solved", "unsolved")}
        table.add_row(
            str(step["step"]),
            _number(step["solve_rate"], 2),
            "" if heldout is None else f"{heldout:.2f}",
            _number(step["reward"], 2),
            str(step["submitted"]),
            str(step["dropped"]),
            " ".join(f"{name} {count}" for name, count in others.items()),
            str(step["loss_tokens"]),
            _proof(step),
            _number(step["pearson"], 5),
            _number(step["entropy"], 2),
            f"{step['seconds']:.0f}",
        )
    return table


def summary(view: RunView, console: Console, *, seconds: float, memory: int) -> None:
    """The first and the last steps side by side; ``memory`` is the run's peak in bytes."""
    if not view.steps:
        return
    first = view.steps[:2]
    last = view.steps[2:][-3:] or first
    table = Table(title="first and last steps", title_justify="left", box=None, pad_edge=False, padding=(0, 2))
    table.add_column("")
    table.add_column(f"steps {_range(first)}", justify="right")
    table.add_column(f"steps {_range(last)}", justify="right")
    for label, key, digits in (
        ("solve rate", "solve_rate", 2),
        ("reward", "reward", 2),
        ("calls", "calls", 0),
        ("loss tokens", "loss_tokens", 0),
        ("entropy", "entropy", 3),
        ("pearson", "pearson", 6),
        ("seconds a step", "seconds", 1),
    ):
        table.add_row(label, *(_number(_mean(rows, key), digits) for rows in (first, last)))
    if len(view.heldout) > 1:
        rates = [_number(entry["solve_rate"], 2) for entry in (view.heldout[0], view.heldout[-1])]
        table.add_row("held-out solve rate", *rates)
    console.print(table)
    took = f"{seconds / 60:.1f} minutes, at most {memory / 2**30:.1f} GiB of memory"
    console.print(f"{len(view.steps)} steps in {took}", highlight=False)


def _line(step: dict[str, Any], total: int) -> str:
    heldout = step.get("heldout_solve_rate")
    outcomes = " ".join(f"{name}={count}" for name, count in step["outcomes"].items())
    return (
        f"step {step['step']}/{total}  solved {_number(step['solve_rate'], 2)}"
        + ("" if heldout is None else f"  held-out {heldout:.2f}")
        + f"  trials {step['submitted']} (dropped {step['dropped']})  {outcomes}  loss tokens {step['loss_tokens']}"
        + f"  proof {_proof(step)}  pearson {_number(step['pearson'], 5)}  {step['seconds']:.0f} s"
    )


def _proof(step: dict[str, Any]) -> str:
    values = (step["proof_provenance"], step["proof_context"])
    return " / ".join("-" if value is None else f"{value:.0%}" for value in values)


def _number(value: Any, digits: int) -> str:
    return "-" if value is None else f"{float(value):.{digits}f}"


def _mean(rows: list[dict[str, Any]], key: str) -> float | None:
    values = [float(row[key]) for row in rows if row.get(key) is not None]
    return sum(values) / len(values) if values else None


def _range(rows: list[dict[str, Any]]) -> str:
    first, last = rows[0]["step"], rows[-1]["step"]
    return str(first) if first == last else f"{first}-{last}"

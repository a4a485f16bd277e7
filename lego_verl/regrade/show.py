"""What grading again changed, for a terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lego_verl.regrade.grade import Comparison, Regraded
from lego_verl.trial.outcome import Outcome

_SHOWN = 20
_PLAIN = {"box": None, "pad_edge": False, "header_style": "bold", "padding": (0, 1), "title_justify": "left"}


def show_regraded(results: Sequence[Regraded], console: Console) -> None:
    """The trials that changed, how many went from what to what, and what could not be graded."""
    changed = [each for each in results if each.comparison is Comparison.CHANGED]
    if changed:
        _table_of_changed(changed, console)
    table = Table("then", "now", title="verdicts", **_PLAIN)  # type: ignore[arg-type]
    table.add_column("trials", justify="right")
    graded = (each for each in results if each.comparison in (Comparison.SAME, Comparison.CHANGED))
    counts = Counter((_said(each.outcome_then, each.reward_then), _said(each.outcome, each.reward)) for each in graded)
    for (then, now), count in sorted(counts.items(), key=lambda item: (-item[1], item[0])):
        table.add_row(then, now if now == then else f"[red]{now}[/]", str(count))
    if counts:
        console.print(table)
    _show_failed([each for each in results if each.comparison is Comparison.NO_VERDICT], console)
    tasks = sorted({each.task for each in results if each.task_changed})
    if tasks:
        names = ", ".join(tasks[:_SHOWN]) + (f" and {len(tasks) - _SHOWN} more" if len(tasks) > _SHOWN else "")
        console.print(f"[yellow]tasks that changed since the run, graded as they are now:[/] {names}", soft_wrap=True)
    console.print(summary(results), soft_wrap=True)


def summary(results: Sequence[Regraded]) -> str:
    """One line that counts."""
    counts = Counter(each.comparison for each in results)
    parts = [f"{counts[Comparison.SAME]} the same", f"{counts[Comparison.CHANGED]} changed"]
    if counts[Comparison.NO_VERDICT]:
        parts.append(f"{counts[Comparison.NO_VERDICT]} without a verdict now")
    if counts[Comparison.NOTHING]:
        parts.append(f"{counts[Comparison.NOTHING]} dropped trials that left nothing to grade")
    return f"{len(results)} trials: " + ", ".join(parts)


def _table_of_changed(changed: Sequence[Regraded], console: Console) -> None:
    table = Table("step", "trial", "task", "then", "now", "because", title="changed", **_PLAIN)  # type: ignore[arg-type]
    for each in changed:
        why = "the task has changed" if each.task_changed else each.error
        then, now = _said(each.outcome_then, each.reward_then), _said(each.outcome, each.reward)
        table.add_row(str(each.step), each.trial, each.task, then, f"[red]{now}[/]", escape(why))
    console.print(table)


def _show_failed(failed: Sequence[Regraded], console: Console) -> None:
    reasons = Counter((each.error.strip().splitlines() or [""])[-1] for each in failed)
    for each in failed[:_SHOWN]:
        console.print(
            f"[yellow]no verdict[/]  {each.step:04d}/{each.trial} ({each.task}): {escape(each.error)}", soft_wrap=True
        )
    if len(failed) > _SHOWN:
        often, count = reasons.most_common(1)[0]
        console.print(f"[yellow]no verdict[/]  {len(failed) - _SHOWN} more; most often ({count}): {escape(often)}")


def _said(outcome: Outcome | None, reward: float | None) -> str:
    return f"{outcome} {'-' if reward is None else f'{reward:g}'}"

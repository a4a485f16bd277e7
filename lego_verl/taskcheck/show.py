"""What a check of tasks found, for a person at a terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lego_verl.taskcheck.examine import Examination


def show_examinations(found: Sequence[Examination], console: Console) -> None:
    """A table with a line a task, and below it what is wrong with those that cannot be used."""
    table = Table("task", "empty", "reference", "caught", "told", "unguarded", "s", "MiB", "verdict")
    for each in found:
        told = sum(outcome == "tampered" for outcome in each.cheaters.values())
        caught = len(each.cheaters) - len(each.fooled)
        table.add_row(
            escape(each.task),
            _rewards(each.nop),
            _rewards(each.reference),
            f"{caught}/{len(each.cheaters)}" if each.cheaters else "",
            str(told) if each.cheaters else "",
            str(len(each.unguarded)) if each.unguarded else "",
            "" if each.seconds is None else f"{each.seconds:.1f}",
            "" if each.memory_mb is None else f"{each.memory_mb:.0f}",
            "[green]usable[/]" if each.usable else "[red]flaky[/]" if each.flaky else "[red]not usable[/]",
        )
    console.print(table)
    for each in found:
        for problem in each.problems:
            console.print(f"[red]{escape(each.task)}[/]: {escape(problem)}", soft_wrap=True)
    usable = sum(each.usable for each in found)
    console.print(f"{usable} of {len(found)} tasks are usable")


def _rewards(rewards: Sequence[float | None]) -> str:
    shown = ["-" if reward is None else f"{reward:g}" for reward in rewards]
    return shown[0] if len(set(shown)) == 1 else " ".join(shown)

"""Every trial of an evaluation, before the first one runs: what is counted is what was asked for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lego_verl.config import ConfigError
from lego_verl.tasks.task import Task


@dataclass(frozen=True, order=True)
class Cell:
    """Trials that are counted together."""

    harness: str
    turns: int


@dataclass(frozen=True)
class Planned:
    """One trial."""

    cell: Cell
    task: Task
    number: int
    """From 1, among the trials of its task in its cell."""

    @property
    def name(self) -> str:
        """Its folder: the same in every run of the evaluation, however many harnesses, budgets or tasks it has."""
        return f"{self.cell.harness}-{self.cell.turns}-{self.task.name}-{self.number}"


def plan(harnesses: Sequence[str], budgets: Sequence[int], tasks: Sequence[Task], repeat: int) -> list[Planned]:
    """All trials, in an order in which no cell is long ahead of the others.

    Raises:
        ConfigError: for nothing to run, or the same thing twice.
    """
    for key, values, least in (("harnesses", harnesses, 0), ("budgets", budgets, 1), ("repeat", [repeat], 1)):
        if not values:
            raise ConfigError(f"{key}=[]: name at least one")
        if len(set(values)) < len(values):
            raise ConfigError(f"{key}=[{','.join(map(str, values))}] names one of them twice")
        if least and min(map(int, values)) < least:
            raise ConfigError(f"{key}={min(map(int, values))} must be at least {least}")
    cells = [Cell(harness, turns) for harness in harnesses for turns in budgets]
    planned = [Planned(cell, task, number) for number in range(1, repeat + 1) for task in tasks for cell in cells]
    names = {each.name for each in planned}
    if len(names) < len(planned):
        raise ConfigError("two of these trials would have the same name: rename a task or a harness")
    return planned

"""What an evaluation came to: a table for people, a file for programs."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lego_verl.evaluate.counts import Count
from lego_verl.evaluate.request import Evaluation
from lego_verl.prepare import versions

_LINE = 200


def show_counts(counts: Sequence[Count], console: Console) -> None:
    """A row a harness and budget; then what kept trials from a verdict."""
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 1))
    table.add_column("harness")
    pending = any(count.pending for count in counts)
    names = ["turns", "trials", "solved", "failed", "infrastructure", *(["pending"] if pending else [])]
    for name in (*names, "solve rate", "95 % interval", "of graded", "calls", "tokens", "seconds"):
        table.add_column(name, justify="right")
    table.add_column("outcomes")
    for count in counts:
        numbers = [count.turns, count.requested, count.solved, count.failed, count.infrastructure]
        table.add_row(
            count.harness,
            *(str(number) for number in (*numbers, *([count.pending] if pending else []))),
            _rate(count.solve_rate),
            "-" if count.interval is None else "{:.2f} to {:.2f}".format(*count.interval),
            _rate(count.solve_rate_graded),
            _number(count.calls, 1),
            _number(count.sampled_tokens, 0),
            _number(count.seconds, 1),
            " ".join(f"{outcome} {many}" for outcome, many in count.outcomes.items()),
        )
    console.print(table)
    for count in counts:
        for outcome, error in count.errors.items():
            said = " ".join(error.split())[:_LINE]
            many = count.outcomes[outcome]
            console.print(f"{count.harness} {count.turns}: {outcome} {many}: {escape(said)}", soft_wrap=True)


def write_summary(path: Path, evaluation: Evaluation, counts: Sequence[Count]) -> None:
    """Write what ``show_counts`` shows, with what was evaluated and the versions of what did it."""
    summary = {
        "of": evaluation.identity,
        "tasks": [task.name for task in evaluation.tasks],
        "cells": [count.as_dict() for count in counts],
        "versions": versions(),
    }
    part = path.with_suffix(".part")
    part.write_text(json.dumps(summary, indent=1) + "\n")
    part.replace(path)


def _rate(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _number(value: float | None, digits: int) -> str:
    return "-" if value is None else f"{value:.{digits}f}"

"""What an audit found, for a terminal and for other programs."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lego_verl.audit.look import Audited
from lego_verl.audit.rule import Rule, Severity
from lego_verl.regrade.grade import Regraded

FILE = "audit.jsonl"
_COLOURS = {Severity.SEVERE: "red", Severity.SUSPICIOUS: "yellow", Severity.NOTE: "dim"}
_PLAIN = {"box": None, "pad_edge": False, "header_style": "bold", "padding": (0, 1), "title_justify": "left"}


def show_findings(trials: Sequence[Audited], console: Console, *, notes: bool) -> None:
    """Every trial that is suspected with its evidence; with ``notes`` also the others that have any."""
    shown = [each for each in trials if each.findings and (notes or each.suspected)]
    for trial in shown:
        record = trial.record
        reward = "none" if record.reward is None else f"{record.reward:g}"
        console.print(
            f"[bold]{trial.step:04d}/{trial.folder.name}[/] ({escape(record.task)}, {record.outcome}, reward {reward})",
            soft_wrap=True,
        )
        table = Table(show_header=False, box=None, pad_edge=False, padding=(0, 1))
        for column in ("", "rule", "where"):
            table.add_column(column, no_wrap=column != "where")
        table.add_column("quote", overflow="fold", ratio=1)
        for found in trial.findings:
            if notes or found.severity is not Severity.NOTE:
                colour = _COLOURS[found.severity]
                table.add_row(f"  [{colour}]{found.severity}[/]", found.rule, escape(found.where), escape(found.quote))
        console.print(table)
    if shown:
        console.print()


def show_rules(trials: Sequence[Audited], rules: Sequence[Rule], console: Console) -> None:
    """How many trials each rule points at, with the mean reward of those: a cheat that pays is what training learns."""
    table = Table(title="by rule", **_PLAIN)  # type: ignore[arg-type]
    for name, justify in (("severity", "left"), ("rule", "left"), ("trials", "right"), ("reward", "right")):
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    table.add_column("because", overflow="fold")
    order = list(Severity)
    for rule in sorted(rules, key=lambda each: order.index(each.severity)):
        hit = [each for each in trials if any(found.rule == rule.name for found in each.findings)]
        if hit:
            colour = _COLOURS[rule.severity]
            table.add_row(f"[{colour}]{rule.severity}[/]", rule.name, str(len(hit)), _reward(hit), rule.why)
    if table.row_count:
        console.print(table)


def show_steps(trials: Sequence[Audited], console: Console) -> None:
    """Whether there is more of it as the run goes on. Steps in which there is nothing are left out."""
    table = Table(title="by step", **_PLAIN)  # type: ignore[arg-type]
    for name in ("step", "trials", "severe", "suspicious", "notes", "their reward", "reward of the rest"):
        table.add_column(name, justify="right")
    for step in sorted({each.step for each in trials}):
        members = [each for each in trials if each.step == step]
        counts = Counter(each.severity for each in members)
        suspected = [each for each in members if each.suspected]
        if any(each.findings for each in members):
            numbers = (step, len(members), *(counts[severity] for severity in Severity))
            rest = [each for each in members if not each.suspected]
            table.add_row(*map(str, numbers), _reward(suspected), _reward(rest))
    if table.row_count:
        console.print(table)


def summary(trials: Sequence[Audited]) -> str:
    """One line that counts."""
    counts = Counter(each.severity for each in trials)
    clean = counts[None] + counts[Severity.NOTE]
    parts = f"{counts[Severity.SEVERE]} severe, {counts[Severity.SUSPICIOUS]} suspicious, {clean} clean"
    noted = f" ({counts[Severity.NOTE]} with notes)" if counts[Severity.NOTE] else ""
    return f"{len(trials)} trials: {parts}{noted}"


def write_audit(
    path: Path, trials: Sequence[Audited], rules: Sequence[Rule], regraded: Mapping[Path, Regraded]
) -> None:
    """A header that says what was looked at, then a line for each trial with findings; an older file is replaced."""
    header = {
        "trials": len(trials),
        "without_calls": sum(not each.recorded for each in trials),
        "unreadable": sum(bool(each.error) for each in trials),
        "rules": {each.name: {"severity": str(each.severity), "why": each.why} for each in rules},
    }
    part = path.with_suffix(".part")
    with part.open("w", encoding="utf-8", errors="replace") as file:
        file.write(json.dumps(header) + "\n")
        for each in trials:
            if each.findings or each.error:
                file.write(json.dumps(_line(each, regraded.get(each.folder))) + "\n")
    part.replace(path)


def _line(trial: Audited, regraded: Regraded | None) -> dict[str, Any]:
    record = trial.record
    line: dict[str, Any] = {
        "step": trial.step,
        "trial": trial.folder.name,
        "task": record.task,
        "outcome": str(record.outcome),
        "reward": record.reward,
        "severity": None if trial.severity is None else str(trial.severity),
        "findings": [found.as_dict() for found in trial.findings],
    }
    if trial.error:
        line["error"] = trial.error
    if regraded is not None:
        now = None if regraded.outcome is None else str(regraded.outcome)
        line["regraded"] = {"comparison": str(regraded.comparison), "outcome": now, "reward": regraded.reward}
    return line


def _reward(trials: Sequence[Audited]) -> str:
    rewards = [each.record.reward for each in trials if each.record.reward is not None]
    return f"{fmean(rewards):.2f}" if rewards else "-"

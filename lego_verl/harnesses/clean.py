"""``harnesses list`` and ``harnesses clean``: what the cache keeps, and what of it nobody asks for."""

from __future__ import annotations

import time
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path

from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table

from harness_adapters.kept import KeptRuntime, half_built, in_use, kept_runtimes, remove_runtime, remove_unfinished
from lego_verl.harnesses.wanted import Wanted, wanted_runtimes

DAY = 86_400.0


def show_runtimes(cache: Path, console: Console) -> int:
    """A table of the harnesses that there are and of the runtimes that are kept; return the exit code."""
    wanted, kept = wanted_runtimes(cache), {each.folder: each for each in kept_runtimes(cache)}
    table = _table("harness", "runtime", "for", "size", "last use", "folder")
    for each in wanted:
        folders: dict[Path, list[str]] = {}
        for sandbox, folder in each.folders.items():
            folders.setdefault(folder, []).append(sandbox)
        for folder, sandboxes in folders.items():
            built = kept.pop(folder, None)
            shown = _cells(built) if built else ("[dim]not built[/]", "", "")
            table.add_row(each.harness, each.runtime.name, ", ".join(sandboxes), *shown)
    for other in kept.values():
        table.add_row("[dim]none by default[/]", other.name, "", *_cells(other))
    console.print(table)
    for each in wanted:
        if each.problem:
            console.print(f"{each.harness}: {each.problem}", markup=False, soft_wrap=True)
    return 0


def clean(cache: Path, console: Console, *, days: float | None, dry: bool) -> int:
    """Remove runtimes that no harness asks for by its recipe and nobody used for a day; with ``days``, any that were
    not used for as many. What a process uses stays.

    Returns:
        The exit code: 1 when something that could go is still there.
    """
    wanted = {folder: each for each in wanted_runtimes(cache) for folder in each.folders.values()}
    table, freed, left = _table("runtime", "last use", "size", "why", "now"), 0, 0
    for each in kept_runtimes(cache):
        why = _why(each, wanted, days)
        if not why:
            continue
        if in_use(each.folder):
            now = "stays: a process uses it"
        elif dry:
            now, left = "[yellow]would be removed[/]", left + 1
        else:
            try:
                removed = remove_runtime(each.folder)
                now = "removed" if removed else "stays: a process uses it"
            except OSError as error:
                now, left = f"[red]stays: {escape(error.strerror or str(error))}[/]", left + 1
        freed += each.size if "removed" in now else 0
        table.add_row(each.folder.name, _date(each.used), decimal(each.size), why, now)
    for part in half_built(cache):
        if not dry:
            remove_unfinished(part)
        table.add_row(part.name, "", "", "its builder was killed", "[yellow]would be removed[/]" if dry else "removed")
    if not table.row_count:
        console.print("nothing is kept that nobody asks for")
        return 0
    console.print(table)
    console.print(f"{decimal(freed)} {'would be ' if dry else ''}freed")
    return 1 if left else 0


def _why(each: KeptRuntime, wanted: Mapping[Path, Wanted], days: float | None) -> str:
    idle = (time.time() - each.used) / DAY
    if days is not None and idle >= days:
        return f"not used for {idle:.0f} days"
    return "no harness asks for it" if each.folder not in wanted and idle >= 1 else ""


def _cells(kept: KeptRuntime) -> tuple[str, str, str]:
    return decimal(kept.size), _date(kept.used), kept.folder.name


def _date(seconds: float) -> str:
    return datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")


def _table(*columns: str) -> Table:
    table = Table(*columns, box=None, pad_edge=False, header_style="bold", padding=(0, 1))
    for column in table.columns:
        column.overflow = "fold"
    return table

"""``python -m lego_verl.report RUN``: the command line."""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from lego_verl.export.redact import Redactor
from lego_verl.monitor import queries
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.monitor.store import StoreError
from lego_verl.monitor.store_index import bring_up_to_date
from lego_verl.proof.read import NoRun, whole_run
from lego_verl.report.collect import collect
from lego_verl.report.write import render
from lego_verl.verb import ended


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code (0 written, 1 it failed, 2 no such run)."""
    parser = argparse.ArgumentParser(prog="python -m lego_verl.report", description="A run in one HTML file, to send.")
    parser.add_argument("run", help="a run's folder, or its name under runs/")
    parser.add_argument("--out", type=Path, metavar="FILE", help="by default report.html in the run's folder")
    given = parser.parse_args(arguments)
    return ended(lambda: _report(given), {NoRun: 2, StoreError: 1, sqlite3.Error: 1, OSError: 1})


def _report(given: argparse.Namespace) -> int:
    run = whole_run(given.run, "a report is of a run")
    out = given.out or run.path / "report.html"
    redactor = Redactor(os.environ)
    page = make_report(run, redactor)
    part = out.with_name(out.name + ".part")
    part.write_text(page, encoding="utf-8")
    part.replace(out)
    console = Console(highlight=False)
    console.print(f"{out} ({len(page.encode()) / 1024:.0f} KiB)", soft_wrap=True, markup=False)
    if redactor.found:
        told = ", ".join(f"{name} {count}" for name, count in sorted(redactor.found.items()))
        console.print(f"redacted: {told}", markup=False)
    return 0


def make_report(run: RunFolder, redactor: Redactor) -> str:
    """The page of a run, whose store is made or brought up to date first.

    Raises:
        NoRun: when nothing has happened in it.
        StoreError, sqlite3.Error, OSError: when it cannot be read.
    """
    bring_up_to_date(run)
    if not run.store.exists():
        raise NoRun(f"{run.path}: nothing has happened in it yet")
    with queries.read_store(run.store) as db:
        return render(collect(run, db, redactor))


if __name__ == "__main__":
    sys.exit(main())

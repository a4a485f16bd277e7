"""``python -m lego_verl.status RUN``: the command line."""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
import time
from collections.abc import Sequence
from contextlib import suppress

from rich.console import Console
from rich.progress import Progress

from lego_verl.monitor import queries
from lego_verl.monitor.alerts import Watched
from lego_verl.monitor.clock_watch import by_clock
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.monitor.store import StoreError
from lego_verl.monitor.store_index import bring_up_to_date
from lego_verl.proof.read import NoRun, whole_run
from lego_verl.status.show import show_status
from lego_verl.status.trouble import is_alive, last_error
from lego_verl.verb import ended, wide_console


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code (0 shown, 1 the store cannot be used, 2 no such run)."""
    parser = argparse.ArgumentParser(
        prog="python -m lego_verl.status",
        description="A run at a glance. A run without a store, or whose store is behind its files, is indexed first.",
    )
    parser.add_argument("run", help="a run's folder, or its name under runs/")
    parser.add_argument("--watch", type=float, metavar="SECONDS", help="show it again every so often, until Ctrl-C")
    parser.add_argument("--json", action="store_true", help="the overview, for a program")
    parser.add_argument("--no-index", action="store_true", help="only read: show what the store has")
    given = parser.parse_args(arguments)
    return ended(lambda: _status(given, wide_console()), {NoRun: 2, StoreError: 1, sqlite3.Error: 1, OSError: 1})


def _status(given: argparse.Namespace, console: Console) -> int:
    run = whole_run(given.run, "python -m lego_verl.proof shows it")
    if not given.no_index:
        with Progress(console=Console(stderr=True), transient=True) as progress:
            bar = progress.add_task(f"indexing {run.name}", total=None, visible=False)
            bring_up_to_date(run, lambda done, of: progress.update(bar, completed=done, total=of, visible=True))
    with suppress(KeyboardInterrupt):  # how one stops to watch
        while True:
            _show(run, console, as_json=given.json)
            if given.watch is None:
                break
            time.sleep(max(given.watch, 0.5))
            console.rule(time.strftime("%H:%M:%S"))
    return 0


def _show(run: RunFolder, console: Console, *, as_json: bool) -> None:
    recipe = queries.recipe(run.recipe)
    total = recipe.get("trainer.total_training_steps")
    if not run.store.exists():
        raise NoRun(f"{run.path}: nothing has happened in it yet")
    with queries.read_store(run.store) as db:
        if as_json:
            print(json.dumps(queries.overview(db, total_steps=total)))
            return
        alive = is_alive(run)
        seen = by_clock(run, Watched.of(run.recipe), now=time.time(), alive=alive)
        notes = [note for note in (last_error(run), *(each.message for each in seen.values())) if note]
        show_status(db, console, name=run.name, total_steps=total, alive=alive, notes=notes)


if __name__ == "__main__":
    sys.exit(main())

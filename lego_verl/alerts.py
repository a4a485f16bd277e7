"""``python -m lego_verl.alerts RUN``: what the alerts say of a run, step by step, as the rules are now."""

from __future__ import annotations

import argparse
import json
import sqlite3
import sys
from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from lego_verl.monitor import queries
from lego_verl.monitor.alerts import Watched, replay
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.monitor.store import StoreError
from lego_verl.monitor.store_index import bring_up_to_date
from lego_verl.monitor.store_text import one_line
from lego_verl.proof.read import NoRun, whole_run
from lego_verl.verb import ended


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code (0 none was raised, 1 some were, 2 no such run)."""
    parser = argparse.ArgumentParser(prog="python -m lego_verl.alerts", description=__doc__)
    parser.add_argument("run", nargs="+", help="a run's folder, or its name under runs/")
    parser.add_argument("--json", action="store_true", help="a line each, for a program")
    given = parser.parse_args(arguments)

    def show() -> int:
        raised = [_show(whole_run(name, "alerts are of a run"), as_json=given.json) for name in given.run]
        return 1 if any(raised) else 0

    return ended(show, {NoRun: 2, StoreError: 2, sqlite3.Error: 2, OSError: 2})


def _show(run: RunFolder, *, as_json: bool) -> int:
    bring_up_to_date(run)
    if not run.store.exists():
        raise NoRun(f"{run.path}: nothing has happened in it yet")
    console = Console(highlight=False)
    with queries.read_store(run.store) as db:
        told = list(replay(db, Watched.of(run.recipe), run=run.name))
        steps = db.execute(
            "SELECT count(DISTINCT step) FROM metrics WHERE split = 'train' AND name = 'seconds'"
        ).fetchone()
    opened = sum(each["state"] == "open" for _, each in told)
    for step, each in told:
        if as_json:
            print(json.dumps({"run": run.name, "step": step, **each}))
        else:
            line = Text.assemble(f"  step {step}: ", (f"{each['name']} ", "bold"), one_line(each["message"], 600))
            console.print(line, soft_wrap=True)
    if not as_json:
        console.print(Text(f"{one_line(run.name)}: {steps[0]} steps, {opened} alerts"))
    return opened


if __name__ == "__main__":
    sys.exit(main())

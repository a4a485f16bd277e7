"""``python -m lego_verl.export RUN``: the command line."""

from __future__ import annotations

import argparse
import os
import sqlite3
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import orjson
from rich.console import Console

from lego_verl.capture.record import Recording, RecordingError, read_recording
from lego_verl.export.atif import atif_line
from lego_verl.export.chat import chat_lines
from lego_verl.export.redact import Redactor
from lego_verl.monitor import queries
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.monitor.store import StoreError
from lego_verl.monitor.store_index import bring_up_to_date
from lego_verl.proof.read import NoRun, whole_run
from lego_verl.verb import ended

_PAGE = 500


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code (0 written, 1 nothing fitted or it failed, 2 no such run)."""
    given = _parser().parse_args(arguments)
    return ended(lambda: _export(given), {NoRun: 2, StoreError: 1, sqlite3.Error: 1, OSError: 1})


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m lego_verl.export", description=__doc__)
    parser.add_argument("run", help="a run's folder, or its name under runs/")
    parser.add_argument("--form", choices=("atif", "chat"), default="atif")
    parser.add_argument("--out", type=Path, help="a file; by default export-FORM.jsonl in the run's folder")
    parser.add_argument("--all", action="store_true", help="also trials that are not solved")
    parser.add_argument("--split", choices=("train", "heldout"), default="train")
    parser.add_argument("--task", help="only trials of this task")
    parser.add_argument("--harness", help="only trials of this harness")
    parser.add_argument("--first-step", type=int)
    parser.add_argument("--last-step", type=int)
    parser.add_argument("--limit", type=int, help="trials, at most: the newest")
    parser.add_argument("--tokens", action="store_true", help="of atif: with token ids and log-probabilities")
    parser.add_argument("--no-reasoning", action="store_true", help="of chat: without what was thought")
    parser.add_argument("--suspected", action="store_true", help="also trials that showed signs of cheating")
    return parser


def _export(given: argparse.Namespace) -> int:
    run = whole_run(given.run, "export takes a run")
    bring_up_to_date(run)
    out = given.out or run.path / f"export-{given.form}.jsonl"
    redactor, written, left_out = Redactor(os.environ), 0, 0
    part = out.with_name(out.name + ".part")
    with part.open("wb") as file:
        for row in _chosen(run, given):
            folder = run.trial(row["step"], row["trial"])
            try:
                recording = read_recording(folder)
            except RecordingError:
                left_out += 1
                continue
            for line in _lines(recording, _about(run, row), given):
                file.write(orjson.dumps(_valid(redactor.any(line))) + b"\n")
            written += 1
    part.replace(out)
    console = Console(highlight=False)
    console.print(f"{written} trials: {out}", soft_wrap=True, markup=False)
    if left_out:
        console.print(f"{left_out} more have no calls that can be read, and are left out")
    if redactor.found:
        told = ", ".join(f"{name} {count}" for name, count in sorted(redactor.found.items()))
        console.print(f"redacted: {told}", markup=False)
    return 0 if written else 1


def _chosen(run: RunFolder, given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    where = {"split": given.split, "task": given.task, "harness": given.harness, "state": "finished"}
    where |= {"first_step": given.first_step, "last_step": given.last_step}
    taken = offset = 0
    with queries.read_store(run.store) as db:
        while page := queries.trials(db, limit=_PAGE, offset=offset, **where):
            offset += len(page)
            for row in page:
                if not given.all and not (row["reward"] is not None and row["reward"] >= 1):
                    continue
                if not given.suspected and row["signs"] != "[]":
                    continue
                if given.limit is not None and taken >= given.limit:
                    return
                taken += 1
                yield row


def _about(run: RunFolder, row: Mapping[str, Any]) -> dict[str, Any]:
    names = ("trial", "task", "harness", "step", "split", "outcome", "reward", "trained")
    try:
        record = orjson.loads((run.trial(row["step"], row["trial"]) / "trial.json").read_bytes())
        made_with = {f"{name}_digest": record["versions"][name] for name in ("runtime", "task")}
    except (OSError, LookupError, TypeError, orjson.JSONDecodeError):
        made_with = {}
    return {"run": run.name, **{name: row[name] for name in names}, **made_with}


def _lines(recording: Recording, about: dict[str, Any], given: argparse.Namespace) -> Iterator[dict[str, Any]]:
    if given.form == "atif":
        yield atif_line(recording, about, tokens=given.tokens)
    else:
        yield from chat_lines(recording, about, reasoning=not given.no_reasoning)


def _valid(value: Any) -> Any:
    """Texts that are valid UTF-8: what is not (half a surrogate pair) becomes a question mark."""
    if isinstance(value, str):
        return value if value.isascii() else value.encode("utf-8", "replace").decode("utf-8")
    if isinstance(value, dict):
        return {_valid(key): _valid(each) for key, each in value.items()}
    return [_valid(each) for each in value] if isinstance(value, list) else value


if __name__ == "__main__":
    sys.exit(main())

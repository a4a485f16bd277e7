"""``python -m lego_verl.proof RUN [--trial NAME] [--tokens]``: the command line."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from lego_verl.capture.record import RecordingError, read_recording
from lego_verl.proof.read import (
    NoRun,
    find_run,
    find_trial,
    is_trial,
    metrics_disagree,
    prove_trial,
    sum_steps,
    trial_folders,
)
from lego_verl.proof.show import HEADER, show_proof, show_run, show_trial, token_lines
from lego_verl.verb import wide_console


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code (0: the proof holds, 1: it does not, 2: there is nothing to prove)."""
    parser = argparse.ArgumentParser("lego_verl.proof", description="The capture report of a finished run.")
    parser.add_argument("run", help="a run's folder, its name under runs/, or the folder of one trial")
    parser.add_argument("--trial", help="one trial: its name, STEP/NAME, or its folder")
    parser.add_argument("--tokens", action="store_true", help="with one trial: token by token")
    given = parser.parse_args(arguments)
    console = wide_console()
    try:
        folder = find_run(given.run)
        if given.trial is not None:
            folder = find_trial(folder, given.trial)
        if is_trial(folder):
            return _trial(folder, console, tokens=given.tokens)
        if given.tokens:
            raise NoRun("--tokens is of one trial: give --trial NAME as well")
        return _run(folder, console)
    except (NoRun, RecordingError) as error:
        print(f"lego_verl: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:  # whoever read it has seen enough
        sys.stderr.close()
        return 0


def _run(run: Path, console: Console) -> int:
    folders = trial_folders(run)
    if not folders:
        raise NoRun(f"{run}: no trial of it is finished, or it ran with monitor.keep_trials=false")
    with Progress(console=Console(stderr=True), transient=True) as progress:
        trials = [prove_trial(folder) for folder in progress.track(folders, description="proving trials again")]
    steps = sum_steps(run, trials)
    show_run(steps, console, f"{run}: {len(trials)} trials, proved again from their recordings")
    problems = [
        f"{trial.folder}: its trial.json says something else of its proof" for trial in trials if trial.disagrees
    ]
    problems += metrics_disagree(run, steps)
    for problem in problems[:20]:
        console.print(f"[red]differs[/]  {problem}", soft_wrap=True)
    whole = all(step.provenance in (None, 1.0) and step.context in (None, 1.0) for step in steps)
    return 0 if whole and not problems else 1


def _trial(folder: Path, console: Console, *, tokens: bool) -> int:
    disagrees = False
    if (folder / "trial.json").exists():
        proved = prove_trial(folder)
        disagrees = proved.disagrees
        if not (folder / "calls.jsonl").exists():
            if tokens:
                raise NoRun(f"{folder}: nothing of it was captured, so there are no tokens to show")
            show_proof(proved.proof, console)
            return 1
        if disagrees:
            console.print(f"[red]differs[/]  {folder / 'trial.json'} says something else of the proof", soft_wrap=True)
    recording = read_recording(folder)
    show_trial(recording, console, title=str(folder))
    if tokens:
        print(HEADER)
        for line in token_lines(recording):
            print(line)
        sys.stdout.flush()
    return 0 if recording.proof().holds and not disagrees else 1


if __name__ == "__main__":
    sys.exit(main())

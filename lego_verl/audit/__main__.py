"""``python -m lego_verl.audit RUN``: the command line."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import Progress
from rich.table import Table

from lego_verl.audit.look import Audited, audit_trial
from lego_verl.audit.rules import RULES
from lego_verl.audit.show import FILE, show_findings, show_rules, show_steps, summary, write_audit
from lego_verl.config import ConfigError
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.proof.read import NoRun
from lego_verl.regrade.__main__ import at_least_one, existing_folder, regrade_with_progress
from lego_verl.regrade.find import TaskFinder, find_trials, grading_part, recipe_of
from lego_verl.regrade.grade import Regraded
from lego_verl.regrade.show import show_regraded
from lego_verl.verb import ended, wide_console
from sandbox.choose import NAMES as BACKENDS
from sandbox.sandbox import SandboxError

_UNREAD_SHOWN = 5
_DESCRIPTION = """\
Looks through the trials of a finished run for attempts to cheat, and quotes the evidence: the commands of every call,
what they gave back, the patch, and the grader's word. Nothing is run. What is found is a reason to look, not a verdict:
a severe finding is what hardly anybody does who wants to solve the task, a suspicious one is worth a second grading,
and notes are only counted. Writes audit.jsonl into the run's folder, in the place of an older one."""
_EXIT_CODES = """\
exit codes:
  0    nothing severe or suspicious was found
  1    something was, or a trial could not be read
  2    an argument, the run or its recipe cannot be used
  3    --regrade: the sandbox cannot be used here; what was found is shown and written
  130  interrupted

examples:
  python -m lego_verl.audit my-run
  python -m lego_verl.audit my-run --step 40 --notes
  python -m lego_verl.audit my-run --regrade --jobs 4
  python -m lego_verl.audit --list-rules"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    parser = _parser()
    given = parser.parse_args(arguments)
    console = wide_console()
    if given.list_rules:
        _list_rules(console)
        return 0
    if given.run is None:
        parser.error("RUN is missing")
    return ended(lambda: _audit(given, console), {NoRun: 2, ConfigError: 2, SandboxError: 3, OSError: 2})


def _audit(given: argparse.Namespace, console: Console) -> int:
    run, folders = find_trials(given.run, trial=given.trial, step=given.step)
    with Progress(console=Console(stderr=True), transient=True) as progress:
        trials = [audit_trial(folder) for folder in progress.track(folders, description="looking through trials")]
    return _report(run, trials, given, console)


def _report(run: RunFolder, trials: Sequence[Audited], given: argparse.Namespace, console: Console) -> int:
    show_findings(trials, console, notes=given.notes)
    write_audit(run.path / FILE, trials, RULES, {})
    regraded: Mapping[Path, Regraded] = {}
    suspected = [each.folder for each in trials if each.suspected]
    if given.regrade and suspected:
        recipe = recipe_of(run)
        tasks = TaskFinder(run, recipe, extra=given.tasks)
        grading = regrade_with_progress(
            run, suspected, grading_part(recipe), tasks, backend=given.backend, jobs=given.jobs
        )
        regraded = dict(zip(suspected, asyncio.run(grading), strict=True))
        console.print("[bold]the suspected ones, graded again in a clean sandbox[/]")
        show_regraded(list(regraded.values()), console)
        console.print()
        write_audit(run.path / FILE, trials, RULES, regraded)
    show_rules(trials, RULES, console)
    show_steps(trials, console)
    unread = [each for each in trials if each.error]
    for each in unread[:_UNREAD_SHOWN]:
        console.print(f"[red]not read[/]  {each.folder}: {escape(each.error)}", soft_wrap=True)
    patches = sum(not each.recorded and not each.error for each in trials)
    if patches:
        console.print(f"[yellow]{patches} trials have no recording of their calls: only their patches were read[/]")
    console.print(summary(trials) + (f"; {len(unread)} could not be read" if unread else ""))
    console.print(f"written to {run.path / FILE}", soft_wrap=True)
    return 1 if suspected or unread else 0


def _list_rules(console: Console) -> None:
    table = Table("rule", "severity", "looks at", "because", box=None, pad_edge=False, header_style="bold")
    for rule in RULES:
        table.add_row(rule.name, str(rule.severity), str(rule.looks_at), rule.why)
    console.print(table)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "lego_verl.audit",
        description=_DESCRIPTION,
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", nargs="?", help="a run's folder, its name under runs/, or the folder of one trial")
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--trial", metavar="NAME", help="one trial: its name, STEP/NAME, or its folder")
    which.add_argument("--step", metavar="N", type=int, help="the trials of one step")
    parser.add_argument("--notes", action="store_true", help="show notes, too, and the trials that have only these")
    parser.add_argument("--list-rules", action="store_true", help="say what is looked for, and why; needs no RUN")
    again = parser.add_argument_group("grading the suspected ones again, as lego_verl.regrade does")
    again.add_argument("--regrade", action="store_true", help="do so; the verdicts go to regrade.jsonl as well")
    again.add_argument("--backend", choices=BACKENDS, help="the kind of sandbox (default: as the recipe has it)")
    again.add_argument("--jobs", metavar="N", type=at_least_one, help="gradings at once (default: sandbox.slots)")
    again.add_argument("--tasks", metavar="FOLDER", type=existing_folder, help="where the tasks are now")
    return parser


if __name__ == "__main__":
    sys.exit(main())

"""Whether planted faults raise the right alert within two steps, in real runs: ``python benchmarks/planted_faults.py``.

Each run is the real trainer on the tiny policy, 2 tasks of 4 trials a step. Faults are planted by a recipe's key or by
a plug-in from outside (planted_plugin.py); the product is not edited. ::

    python benchmarks/planted_faults.py [healthy tool_use rewards grader sync all] [--policy DIR] [--out DIR]
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lego_verl.monitor import queries
from lego_verl.monitor.alerts import alert_events
from lego_verl.monitor.run_folder import RunFolder, read_lines


@dataclass(frozen=True)
class Case:
    """What is planted in a run, and what it must raise."""

    name: str
    what: str
    alerts: Mapping[str, int] = field(default_factory=dict)
    """Each with the last step in which it may open: a step after the fault begins."""
    planted: str = ""
    """For the plug-in."""
    recipe: tuple[str, ...] = ()
    steps: int = 3
    stops: bool = False
    """Whether a guard ends the run."""


SHUFFLED = ("guard.shuffle_rewards=true",)
CASES = {
    case.name: case
    for case in (
        Case("healthy", "nothing"),
        Case("tool_use", "replies hold no tool call from step 2 on", {"tool_use": 3}, "tool_use@2", steps=2),
        Case("rewards", "rewards go to the wrong trials", {"rewards": 2}, recipe=SHUFFLED, steps=2),
        Case("grader", "every third trial gets no verdict", {"infrastructure": 2}, "grader@1", steps=2),
        Case("sync", "weight syncs send the weights before, from 2 on", {"canary": 3}, "sync@2", stops=True),
        Case(
            "all",
            "all four: rewards and grader from step 1, tool calls and syncs from 2",
            {"rewards": 2, "infrastructure": 2, "tool_use": 3, "canary": 3},
            "tool_use@2,grader@1,sync@2",
            SHUFFLED,
            stops=True,
        ),
    )
}
SMALL = (
    *("data.train_batch_size=2", "actor_rollout_ref.actor.ppo_mini_batch_size=1", "actor_rollout_ref.rollout.n=4"),
    *("trainer.val_before_train=false", "trainer.test_freq=-1", "tasks.check=false"),
    *("run.seed=1", "monitor.display=lines"),
)


def main() -> int:
    """Run the cases; return the exit code (0 each alert came in time, and no other)."""
    parser = argparse.ArgumentParser(prog="python benchmarks/planted_faults.py", description=__doc__)
    parser.add_argument("cases", nargs="*", default=list(CASES), help=f"of {', '.join(CASES)}")
    parser.add_argument("--policy", type=Path, help="a tiny policy that was made before, for all runs")
    parser.add_argument("--out", type=Path, help="folder of the runs; a run that is there is only read")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="more of the recipe, for all runs"
    )
    given = parser.parse_args()
    out = given.out or Path(tempfile.mkdtemp(prefix="lego_verl-planted-"))
    table = Table(title=f"planted faults: {out}", title_justify="left", box=None, pad_edge=False, padding=(0, 1))
    for column in ("run", "planted", "wanted, by step", "raised (step)", "monitoring"):
        table.add_column(column, overflow="fold")
    held = True
    for name in given.cases:
        case = CASES[name]
        run = RunFolder(out / name)
        # A run that was interrupted goes on.
        if sum(1 for _ in read_lines(run.metrics)) < case.steps and not (case.stops and _stopped(run)):
            _train(case, run, given.policy, given.set)
        with queries.read_store(run.store) as db:
            told = [each for each in alert_events(db) if each["state"] == "open"]
        at: dict[str, int] = {}
        for each in told:
            at.setdefault(each["name"], each["step"])
            print(f"{name}, step {each['step']}: {each['message']}  [{each['look']}]", flush=True)
        # Where a third of the trials has no verdict they are dropped as well: that may be told, too.
        expected = {*case.alerts, *({"dropped"} if "infrastructure" in case.alerts else ())}
        held &= at.keys() <= expected and all(at.get(alert, 99) <= step for alert, step in case.alerts.items())
        shares = [line["monitoring_share"] for line in read_lines(run.metrics) if line.get("monitoring_share")]
        cost = f"{max(shares):.2%} at most" if shares else "-"
        table.add_row(name, case.what, *(_by_step(each) for each in (case.alerts, at)), cost)
    Console(width=160).print(table)
    return 0 if held else 1


def _by_step(alerts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} ({step})" for name, step in alerts.items()) or "none"


def _stopped(run: RunFolder) -> bool:
    return (run.path / "error.txt").exists()


def _train(case: Case, run: RunFolder, policy: Path | None, more: list[str]) -> None:
    run.create()
    if policy is not None:
        shutil.copytree(policy, run.policy, dirs_exist_ok=True)
    here = Path(__file__).resolve().parent
    environment = {**os.environ, "PYTHONPATH": f"{here}{os.pathsep}{os.environ.get('PYTHONPATH', '')}"}
    plant: tuple[str, ...] = ()
    if case.planted:
        environment["PLANTED"] = case.planted
        plant = ("actor_rollout_ref.model.external_lib=planted_plugin",)
    command = [sys.executable, "-m", "lego_verl.main", f"run.folder={run.path.parent}", f"run.name={run.name}"]
    done = subprocess.run(
        [*command, *SMALL, f"trainer.total_training_steps={case.steps}", *case.recipe, *plant, *more],
        env=environment,
        check=False,
    )
    if bool(done.returncode) != case.stops:
        sys.exit(f"{case.name}: the run ended with {done.returncode}; see {run.logs}")


if __name__ == "__main__":
    sys.exit(main())

"""Where a run's time goes, as shares of it: ``python benchmarks/loop.py [RUN]``.

Without a run, the default recipe is trained for three steps first. The machine has several cores and trials run at
once, so the phases of a trial are given as shares of the *slot* time (slots x wall time of collecting), and the
phases of a step as shares of the wall time. Figures of one run on one machine: compare shares, not seconds.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from omegaconf import OmegaConf
from rich.console import Console
from rich.table import Table

from lego_verl.monitor.run_folder import RunFolder, read_lines

_TRIAL = {
    "harness": "harness (start-up, its tools, its waiting)",
    "generation": "generation (proxy, capture, rollout server)",
    "start": "sandbox start",
    "patch": "taking the patch",
    "grading": "grading (a second sandbox)",
}
_STEP = {
    "step/gen": "collecting trials",
    "step/old_log_prob": "log-probabilities of the trainer",
    "step/update_actor": "update",
    "step/update_weights": "weight sync",
    "step/save_checkpoint": "checkpoint",
    "step/testing": "held-out tasks",
}


def main() -> int:
    folder = Path(sys.argv[1]) if len(sys.argv) > 1 else _train()
    run = RunFolder(folder)
    steps = list(read_lines(run.metrics))
    if not steps:
        print(f"{run.metrics} holds no step", file=sys.stderr)
        return 1
    slots = int(OmegaConf.load(run.recipe).lego.sandbox.slots)
    phases: dict[str, float] = {}
    for step in steps:
        for name, seconds in step["seconds_by_phase"].items():
            phases[name] = phases.get(name, 0.0) + seconds
    wall = sum(step["seconds"] for step in steps)
    collecting = phases.get("step/gen", 0.0) * slots
    table = Table(title=f"{run.name}: {len(steps)} steps, {wall:.0f} s", title_justify="left", box=None)
    table.add_column("")
    table.add_column("share", justify="right")
    for name, label in _STEP.items():
        table.add_row(label, f"{phases.get(name, 0.0) / wall:.0%}")
    rest = 1 - sum(phases.get(name, 0.0) for name in _STEP) / wall
    table.add_row("the rest of a step", f"{rest:.0%}", end_section=True)
    for name, label in _TRIAL.items():
        table.add_row(f"  of collecting: {label}", f"{phases.get(name, 0.0) / collecting:.0%}")
    used = sum(phases.get(name, 0.0) for name in _TRIAL)
    table.add_row("  of collecting: idle slots", f"{max(0.0, 1 - used / collecting):.0%}")
    Console().print(table)
    return 0


def _train() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="lego_verl-benchmark-"))
    arguments = ["trainer.total_training_steps=3", f"run.folder={folder}", "run.name=loop"]
    subprocess.run([sys.executable, "-m", "lego_verl.main", *arguments], check=True)
    return folder / "loop"


if __name__ == "__main__":
    sys.exit(main())

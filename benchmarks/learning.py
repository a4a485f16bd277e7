"""Does the default recipe learn, on every seed, and only from its rewards? ``python benchmarks/learning.py [RUN ...]``

Trains the default recipe once for each RUN, all of these unless some are named:

- ``1``, ``2``, ``3`` (or any number): with this seed.
- ``control``: seed 1 with every trial's reward handed to another trial. It must not learn.
- ``killed``: seed 1, killed with SIGKILL after step 3 and started again. It must end as well as an unbroken run.

Prints a table; exits 1 where a claim does not hold. Takes about ten minutes a run.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lego_verl.monitor.run_folder import RunFolder, read_lines


def main() -> int:
    folder = Path(tempfile.mkdtemp(prefix="lego_verl-learning-"))
    table = Table("run", "steps", "first two", "last three", "held-out", "pearson >=", "minutes", box=None)
    held = True
    for name in sys.argv[1:] or ["1", "2", "3", "control", "killed"]:
        run = RunFolder(folder / name)
        command = [sys.executable, "-m", "lego_verl.main", f"run.folder={folder}", f"run.name={name}"]
        if name.isdigit():
            command.append(f"run.seed={name}")
        elif name == "control":
            command.append("guard.shuffle_rewards=true")
        elif name == "killed":
            _kill_after(3, command, run)
        else:
            sys.exit(f"no such run: {name!r} (a seed, control or killed)")
        subprocess.run(command, check=True)
        steps, heldout = list(read_lines(run.metrics)), list(read_lines(run.heldout))
        first = sum(step["solve_rate"] for step in steps[:2]) / 2
        last = sum(step["solve_rate"] for step in steps[-3:]) / 3
        learnt = first <= 0.45 and last >= 0.80 and heldout[-1]["solve_rate"] > heldout[0]["solve_rate"]
        in_order = [step["step"] for step in steps] == list(range(1, 17))
        held &= in_order and (last < 0.6 if name == "control" else learnt)
        table.add_row(
            f"seed {name}" if name.isdigit() else name,
            str(len(steps)) if in_order else f"not 1 to 16: {[step['step'] for step in steps]}",
            f"{first:.2f}",
            f"{last:.2f}",
            f"{heldout[0]['solve_rate']:.2f} -> {heldout[-1]['solve_rate']:.2f}",
            f"{min(step['pearson'] for step in steps):.6f}",
            f"{sum(step['seconds'] for step in steps) / 60:.1f}",
        )
        Console().print(table)
    return 0 if held else 1


def _kill_after(step: int, command: list[str], run: RunFolder) -> None:
    """Kills the driver alone, as the kernel would: what it left behind is for the next start to clear."""
    driver = subprocess.Popen(command)
    while not any(line["step"] >= step for line in read_lines(run.metrics)):
        if driver.poll() is not None:
            sys.exit(f"the run ended by itself before step {step}: {run.path}")
        time.sleep(0.5)
    driver.kill()
    driver.wait()


if __name__ == "__main__":
    sys.exit(main())

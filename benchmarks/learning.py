"""Does the default recipe learn, on every seed, and only from its rewards? ``python benchmarks/learning.py [SEED ...]``

Trains the default recipe once a seed (1, 2 and 3 unless named) and once more with every trial's reward handed to
another trial: the control, which must not learn. Prints a table; exits 1 where a claim does not hold. Takes
about ten minutes a run.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from lego_verl.monitor.run_folder import RunFolder, read_lines


def main() -> int:
    seeds = [int(seed) for seed in sys.argv[1:]] or [1, 2, 3]
    folder = Path(tempfile.mkdtemp(prefix="lego_verl-learning-"))
    table = Table("run", "first two steps", "last three", "held-out", "pearson >=", "minutes", box=None)
    held = True
    for name, overrides in [*((f"seed {seed}", [f"run.seed={seed}"]) for seed in seeds), ("control", _SHUFFLED)]:
        run = RunFolder(folder / name.replace(" ", "-"))
        arguments = [f"run.folder={folder}", f"run.name={run.name}", *overrides]
        subprocess.run([sys.executable, "-m", "lego_verl.main", *arguments], check=True)
        steps, heldout = list(read_lines(run.metrics)), list(read_lines(run.heldout))
        first = sum(step["solve_rate"] for step in steps[:2]) / 2
        last = sum(step["solve_rate"] for step in steps[-3:]) / 3
        learnt = first <= 0.45 and last >= 0.80 and heldout[-1]["solve_rate"] > heldout[0]["solve_rate"]
        held &= last < 0.6 if name == "control" else learnt
        table.add_row(
            name,
            f"{first:.2f}",
            f"{last:.2f}",
            f"{heldout[0]['solve_rate']:.2f} -> {heldout[-1]['solve_rate']:.2f}",
            f"{min(step['pearson'] for step in steps):.6f}",
            f"{sum(step['seconds'] for step in steps) / 60:.1f}",
        )
        Console().print(table)
    return 0 if held else 1


_SHUFFLED = ["guard.shuffle_rewards=true"]

if __name__ == "__main__":
    sys.exit(main())

"""Runs side by side, step by step: ``python benchmarks/curves.py RUN [RUN ...]`` prints a table in Markdown.

A column a run: solve rate of the training trials, and verl's Pearson correlation of the probabilities that the rollout
and the trainer give the tokens with loss. Below it the least Pearson, the mean and largest difference of a token's
probability, the least effective share, and the held-out solve rates.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from lego_verl.monitor.run_folder import RunFolder, read_lines


def main(folders: Sequence[str]) -> int:
    runs = [RunFolder(Path(folder)) for folder in folders]
    if not runs:
        sys.exit(__doc__)
    lines = [list(read_lines(run.metrics)) for run in runs]
    _row("step", *(run.name for run in runs))
    _row(*["---"] * (len(runs) + 1))
    for step in range(max(map(len, lines))):
        _row(step + 1, *(_step(each[step]) if step < len(each) else "" for each in lines))
    overall = [[line["alignment"]["overall"] for line in each] for each in lines]
    _row("least Pearson", *(f"{min(line['pearson'] for line in each):.5f}" for each in lines))
    _row("mean difference, worst step", *(f"{max(step['difference_mean'] for step in each):.1e}" for each in overall))
    _row("largest difference", *(f"{max(step['difference_max'] for step in each):.1e}" for each in overall))
    _row("least effective share", *(f"{min(step['effective_share'] for step in each):.4f}" for each in overall))
    held = [[line["solve_rate"] for line in read_lines(run.heldout)] for run in runs]
    _row("held-out", *(" → ".join(f"{rate:.2f}" for rate in each) for each in held))
    return 0


def _step(line: dict) -> str:
    return f"{line['solve_rate']:.2f} / {line['pearson']:.5f}"


def _row(*cells: object) -> None:
    print("| " + " | ".join(map(str, cells)) + " |")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

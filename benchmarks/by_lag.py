"""How far rollout and trainer were apart in runs, by the weight updates that lay between sampling and training.

``python benchmarks/by_lag.py RUN [RUN ...]`` reads ``metrics.jsonl`` of each run. Means are over tokens, those of the
effective share over steps; ``weight`` is the largest importance weight of a token.
"""

from __future__ import annotations

import math
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lego_verl.monitor.run_folder import RunFolder, read_lines

OF_TOKENS = ("difference_mean", "k1", "k3")


def by_lag(steps: Sequence[Mapping[str, Any]]) -> dict[int, dict[str, float]]:
    """Steps, tokens and figures of each lag.

    Args:
        steps: lines of ``metrics.jsonl``.
    """
    found: dict[int, list[Mapping[str, Any]]] = defaultdict(list)
    for step in steps:
        for lag, values in step["alignment"]["by_lag"].items():
            found[int(lag)].append(values)
    return {lag: _pooled(found[lag]) for lag in sorted(found)}


def _pooled(parts: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    tokens = sum(part["tokens"] for part in parts)
    return {
        "steps": len(parts),
        "tokens": tokens,
        "pearson": min(
            (known for part in parts if (known := part["pearson_probabilities"]) is not None), default=math.nan
        ),
        **{name: sum(part[name] * part["tokens"] for part in parts) / tokens for name in OF_TOKENS},
        "weight": max(part["weight_max"] for part in parts),
        "effective_share": sum(part["effective_share"] for part in parts) / len(parts),
    }


def main(folders: Sequence[str]) -> int:
    head = ("lag", "steps", "tokens", "least pearson", "mean |p - q|", "k1", "k3", "weight", "effective share")
    for folder in folders:
        steps = list(read_lines(RunFolder(Path(folder)).metrics))
        solved = [step["solve_rate"] for step in steps]
        print(f"{folder}: {len(steps)} steps, solve rate {solved[0]:.2f} to {solved[-1]:.2f}")
        print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
        for lag, row in by_lag(steps).items():
            numbers = (f"{row[name]:.4g}" for name in ("pearson", *OF_TOKENS, "weight", "effective_share"))
            print(f"| {lag} | {row['steps']} | {row['tokens']} | " + " | ".join(numbers) + " |")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

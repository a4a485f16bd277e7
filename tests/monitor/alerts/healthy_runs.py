"""Made-up runs in which nothing is wrong: what chance alone makes of solve rates, drops, faults and silent turns."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator

import numpy as np

from lego_verl.monitor.alerts.evidence import FIRST, REACH, Evidence, StepFacts

SIZES = ((2, 4), (8, 6), (16, 8), (4, 8))
"""Groups of a step, trials of a group."""


def healthy_run(seed: int, steps: int = 100) -> Iterator[Evidence]:
    """The evidence of each step. By its seed a run is small or large, learns or stands still, from a high start or a
    low one, on few tasks or many, of which some are hard and some easy."""
    chance = np.random.default_rng(seed)
    groups, members = SIZES[seed % len(SIZES)]
    start, learns = chance.uniform(-2.5, 1.0), chance.choice([0.0, 0.0, 0.02, 0.05])
    tasks = chance.normal(0, 1.3, size=int(chance.choice([12, 60, 400])))
    ending_silently, entropy, lag = chance.choice([0.0, 0.3]), chance.uniform(0.2, 0.6), int(chance.choice([0, 0, 2]))
    facts: list[StepFacts] = []
    rates: dict[int, list[float]] = {}
    silent: dict[int, list[float]] = {}
    metrics: dict[str, dict[int, float]] = {}
    for step in range(1, steps + 1):
        chosen = chance.choice(tasks, size=groups)
        skill = min(start + learns * step, 1.5)  # a run that has solved its tasks has nothing to learn, and is told so
        solved = chance.binomial(members, 1 / (1 + np.exp(chosen - skill)))
        lost = chance.binomial(members, 0.01, size=groups)
        graded = members - lost
        solved = np.minimum(solved, graded)
        again = int(chance.binomial(groups * members, 0.01))
        facts.append(
            StepFacts(
                *(step, groups, int(((solved == 0) | (solved == graded)).sum()), groups * members),
                *(int(solved.sum()), int(graded.sum()), float(lag)),
                dropped=Counter({"sandbox_lost": int(lost.sum())}),
                faults=Counter({"sandbox_lost": int(lost.sum()) + again}),
                attempts=groups * members + again,
            )
        )
        rates[step] = [float(a / b) for a, b in zip(solved, graded, strict=True) if b]
        # Some trials write now and then, alike within a step; and some harnesses count more such turns than others.
        share = np.clip(ending_silently + chance.normal(0, 0.03), 0, 1)
        silent[step] = list(chance.beta(1 + 8 * share, 1 + 8 * (1 - share), size=groups * members))
        level = entropy * math.exp(-0.01 * step) * chance.uniform(0.8, 1.2)
        values = {"entropy": level, "seconds": 60.0, "learning_rate": 1e-6}
        values |= {
            f"alignment/by_lag/{lag}/tokens": 1000.0,
            "alignment/overall/effective_share": chance.uniform(0.8, 1),
        }
        if lag == 0:
            values["alignment/by_lag/0/pearson_probabilities"] = 1 - chance.uniform(0, 3e-4)
        values |= {"canary_arrived": chance.normal(1, 0.005), "canary_change": chance.uniform(0.01, 0.1)}
        pairs = float(solved.sum() * (graded - solved).sum())
        values |= {"reward_agreement/equal": 1.0, "reward_agreement/pairs": pairs, "reward_agreement/order": 1.0}
        for name, value in values.items():
            metrics.setdefault(name, {})[step] = float(value)
        near = [each for each in facts if each.step <= FIRST or each.step > step - REACH]
        kept = {each.step for each in near}
        wanted = {*range(1, FIRST + 1), step - 2, step - 1, step}
        yield Evidence(
            step,
            near,
            {number: values for number, values in rates.items() if number in kept},
            {number: values for number, values in silent.items() if number in wanted},
            {},
            metrics,
        )

"""Whether the rewards that a step is trained with follow what the graders said.

The verdicts come from the run's ledger, the rewards from verl's queue after everything that may change them: a reward
function of the recipe's own, the control experiment, a fault. A reward may be shaped; but a trial that was solved must
not be trained with less than one that was not.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import transfer_queue as tq
from transfer_queue import KVBatchMeta


def step_agreement(batch: KVBatchMeta, verdicts: Mapping[str, float]) -> dict[str, float]:
    """``agreement`` of a step, read from verl's queue.

    Args:
        verdicts: reward of each trained trial by its name, as the ledger has it.
    """
    keys = [key for key, tag in zip(batch.keys, batch.tags, strict=True) if not tag.get("is_padding", False)]
    data = tq.kv_batch_get(keys=keys, partition_id=batch.partition_id, select_fields=["rm_scores", "extra_fields"])
    trained: dict[str, list[float]] = defaultdict(list)
    for scores, extra in zip(data["rm_scores"].unbind(), list(data["extra_fields"]), strict=True):
        trained[str(extra["segment_of"][1])].append(float(scores.sum()))
    # Every segment of a trial has the trial's reward; where they differ the trial has none to compare.
    whole = {trial: values[0] for trial, values in trained.items() if max(values) - min(values) < 1e-6}
    known = [trial for trial in whole if trial in verdicts]
    return agreement([whole[trial] for trial in known], [verdicts[trial] for trial in known])


def agreement(trained: Sequence[float], verdicts: Sequence[float]) -> dict[str, float]:
    """How far trials were trained with what they earned.

    Returns:
        ``equal``: share of trials whose reward is the verdict; ``pairs``: pairs of trials with unlike verdicts;
        ``order``: share of them in which the better one got the higher reward. What there is nothing to say of is left
        out.
    """
    found: dict[str, float] = {}
    if not trained:
        return found
    found["equal"] = sum(abs(a - b) < 1e-6 for a, b in zip(trained, verdicts, strict=True)) / len(trained)
    # By counts of (verdict, reward), which are few: pairs of 1,000 trials are half a million.
    counts: dict[tuple[float, float], int] = defaultdict(int)
    for reward, verdict in zip(trained, verdicts, strict=True):
        counts[verdict, reward] += 1
    pairs = right = 0
    for (better, high), many in counts.items():
        for (worse, low), others in counts.items():
            if better > worse:
                pairs += many * others
                right += many * others * (high > low)
    found["pairs"] = float(pairs)
    if pairs:
        found["order"] = right / pairs
    return found

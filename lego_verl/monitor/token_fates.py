"""What became of each token of a trial: trained, or why not.

The reason stands at three places. The recording says which tokens were sampled and in which segments that training
gets; the store, whether the trial was trained at all; the trainer's file (``trained_tokens.py``), what it made of each
token with loss.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lego_verl.capture.record import Recording
from lego_verl.capture.segment import TrainingSegment
from lego_verl.monitor.trained_tokens import TrainedSegment


class Fate(StrEnum):
    """Of one token. ``SAID`` has the words."""

    CONTEXT = "context"
    TRAINED = "trained"
    PRESUMED = "presumed"
    NO_SIGNAL = "no_signal"
    REJECTED = "rejected"
    NO_WEIGHT = "no_weight"
    SPLIT = "split"
    HELDOUT = "heldout"
    DROPPED = "dropped"
    GROUP = "group"
    UNDECIDED = "undecided"


SAID = {
    Fate.CONTEXT: "context: the policy read it, and did not write it here",
    Fate.TRAINED: "trained",
    Fate.PRESUMED: "its trial was trained; what the trainer knew of the token was not kept",
    Fate.NO_SIGNAL: "no signal: its advantage is 0, as all trials of its group got the same reward",
    Fate.REJECTED: "left out of the loss by rollout correction: generation and training were too far apart",
    Fate.NO_WEIGHT: "its importance weight is 0: rollout correction found it too far off",
    Fate.SPLIT: "in a segment that the recipe does not train",
    Fate.HELDOUT: "of a held-out task, which is never trained on",
    Fate.DROPPED: "its trial was dropped",
    Fate.GROUP: "its group was left out of the step",
    Fate.UNDECIDED: "not decided yet: no step has taken its trial",
}
_GROUP = ("small_group", "group_stale", "group_no_variance", "group_failed", "group_surplus")
FATES = tuple(Fate)


def fate_of_trial(row: Mapping[str, Any]) -> tuple[Fate, str]:
    """What became of a trial's tokens with loss as a whole, and the reason in one line.

    Args:
        row: of the store's ``trials``.
    """
    if row["split"] == "heldout":
        return Fate.HELDOUT, SAID[Fate.HELDOUT]
    if row["trained"] == 1:
        step = row["trained_step"]
        later = f", {step - row['step']} later than the one in which it began" if step and step > row["step"] else ""
        return Fate.TRAINED, f"trained in step {step}{later}" if step else "trained"
    why = row["why_not"] or ""
    if row["trained"] == 0:
        fate = Fate.GROUP if why in _GROUP else Fate.DROPPED
        return fate, f"{SAID[fate]}: {why.replace('_', ' ') or 'no reason is stored'}"
    if row["treatment"] == "drop":
        return Fate.DROPPED, f"{SAID[Fate.DROPPED]}: {str(row['outcome']).replace('_', ' ')}"
    return Fate.UNDECIDED, SAID[Fate.UNDECIDED]


def fates_of_segment(segment: TrainingSegment, whole: Fate, trained: TrainedSegment | None) -> NDArray[np.uint8]:
    """(prompt + response,) the place in ``FATES`` of what became of each token of a segment that training got.

    Args:
        whole: what became of its trial (``fate_of_trial``).
        trained: what the trainer kept of it, if anything.
    """
    fates = np.full(len(segment.ids), FATES.index(Fate.CONTEXT), dtype=np.uint8)
    mask = segment.response_mask.astype(bool)
    of_loss = np.full(int(mask.sum()), FATES.index(whole), dtype=np.uint8)
    if whole is Fate.TRAINED:
        if trained is None or len(trained.advantages) != len(of_loss):
            of_loss[:] = FATES.index(Fate.PRESUMED)
        else:
            of_loss[trained.advantages == 0] = FATES.index(Fate.NO_SIGNAL)
            if trained.weights is not None:
                of_loss[trained.weights == 0] = FATES.index(Fate.NO_WEIGHT)
            if trained.rejected is not None:
                of_loss[trained.rejected] = FATES.index(Fate.REJECTED)
    fates[len(segment.prompt_ids) :][mask] = of_loss
    return fates


def untrained_segments(recording: Recording) -> list[int]:
    """The segments, by their index, that training did not get: only what was sampled in them is known."""
    got = {segment.index for segment in recording.segments}
    return [index for index in range(len(recording.splits)) if index not in got]

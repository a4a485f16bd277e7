"""What the trainer knew of each token with loss: one file a step that trained, ``trained/<step>.parquet``.

The trainer writes a step's tokens at once, so one file a step and not one a trial: a run of 100,000 trials has a few
hundred. It stands apart from ``tokens/``, which holds what was sampled, by the step in which a trial *began*: here a
trial is under the step that *trained* it (``trials.trained_step`` in the store), which is later where steps overlap.

A row is one segment. Its lists have an entry for each token with loss, in order: the tokens whose ``response_mask`` is
1 in the trial's own recording.

==============  ==============================================================================================
``began``       int32, the step in which the trial began: with ``trial`` its folder
``trial``       string
``segment``     int32, the segment's index among all of its trial's
``tokens``      int32, tokens with loss
``logprobs``    list of float32, nats: the trainer's, before the step's first update. NULL where the run takes the
                rollout's for the trainer's own (``rollout_correction.bypass_mode``)
``entropies``   list of float32, nats: of the trainer's distribution at the token. NULL likewise
``advantage``   float32, where all tokens of the segment have the same; else NULL
``advantages``  list of float32, where they differ (a critic); else NULL
``weights``     list of float32: what the loss of the token was multiplied by, of importance weights and of
                ``loss_weight.py``. NULL where nothing was
``rejected``    list of uint8: 1 where rollout correction took the token out of the loss. NULL where it took none
==============  ==============================================================================================

Which tokens the policy loss clipped is not kept: it is decided within the update, of log-probabilities that verl does
not hand out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lego_verl.monitor.run_folder import RunFolder

_TOGETHER = 16
"""Rows of a row group: what has to be read for one of them."""
_LISTS = ("logprobs", "entropies", "advantages", "weights")


@dataclass(frozen=True)
class TrainedSegment:
    """What the trainer knew of one segment; every array is (tokens with loss,)."""

    began: int
    trial: str
    segment: int
    advantages: NDArray[np.float32]
    logprobs: NDArray[np.float32] | None = None
    entropies: NDArray[np.float32] | None = None
    weights: NDArray[np.float32] | None = None
    """None: every token's loss counted as it is."""
    rejected: NDArray[np.bool_] | None = None
    """None: no token was taken out."""


def trained_file(run: RunFolder, step: int) -> Path:
    return run.trained / f"{step:04d}.parquet"


def write_trained(path: Path, segments: Sequence[TrainedSegment]) -> None:
    """Write a step's file, whole or not at all.

    Raises:
        OSError: when it cannot be written. ``ImportError`` without pyarrow.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    path.parent.mkdir(exist_ok=True)
    part = path.with_suffix(".part")
    columns = _schema()
    try:
        with pq.ParquetWriter(part, columns, compression="zstd") as writer:
            for start in range(0, len(segments), _TOGETHER):
                rows = [_row(segment) for segment in segments[start : start + _TOGETHER]]
                writer.write_table(pa.Table.from_pylist(rows, schema=columns))
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)  # on a full disk it would keep others from being written
        raise


def read_trained(run: RunFolder, step: int, trial: str) -> dict[int, TrainedSegment]:
    """What is kept of a trial that a step trained, by the index of its segments; empty where nothing is.

    Args:
        step: that trained it.

    Raises:
        ValueError: when the file is none of ours, or pyarrow is missing.
    """
    path = trained_file(run, step)
    if not path.exists():
        return {}
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ValueError(f"{path}: to read it takes pyarrow: pip install pyarrow") from None
    try:
        table = pq.read_table(path, filters=[("trial", "=", trial)])
    except FileNotFoundError:
        return {}
    except (pa.ArrowException, OSError) as error:
        raise ValueError(f"{path} is no file of trained tokens: {str(error).splitlines()[0]}") from error
    rows = [_segment(table, place) for place in range(table.num_rows)]
    return {row.segment: row for row in rows}


def forget_trained_after(run: RunFolder, step: int) -> int:
    """Remove the files of steps after ``step``, which a resumed run does again; how many."""
    late = [path for path in run.trained.glob("[0-9]*.parquet") if path.stem.isdigit() and int(path.stem) > step]
    for path in late:
        path.unlink(missing_ok=True)
    return len(late)


def _schema() -> Any:
    import pyarrow as pa

    return pa.schema(
        [
            ("began", pa.int32()),
            ("trial", pa.string()),
            ("segment", pa.int32()),
            ("tokens", pa.int32()),
            ("advantage", pa.float32()),
            *((name, pa.list_(pa.float32())) for name in _LISTS),
            ("rejected", pa.list_(pa.uint8())),
        ]
    )


def _row(segment: TrainedSegment) -> Mapping[str, Any]:
    advantages = segment.advantages
    same = bool(len(advantages)) and bool((advantages == advantages[0]).all())
    rejected = segment.rejected
    return {
        "began": segment.began,
        "trial": segment.trial,
        "segment": segment.segment,
        "tokens": len(advantages),
        "logprobs": segment.logprobs,
        "entropies": segment.entropies,
        "advantage": float(advantages[0]) if same else None,
        "advantages": None if same else advantages,
        "weights": segment.weights,
        "rejected": None if rejected is None else rejected.astype(np.uint8),
    }


def _segment(table: Any, place: int) -> TrainedSegment:
    def values(name: str, kind: Any) -> Any:
        cell = table[name][place]
        if not cell.is_valid:
            return None
        return np.asarray(cell.values.to_numpy(zero_copy_only=False), dtype=kind)

    def plain(name: str) -> Any:
        return table[name][place].as_py()

    advantages = values("advantages", np.float32)
    if advantages is None:
        advantages = np.full(plain("tokens"), plain("advantage"), dtype=np.float32)
    return TrainedSegment(
        began=plain("began"),
        trial=plain("trial"),
        segment=plain("segment"),
        advantages=advantages,
        logprobs=values("logprobs", np.float32),
        entropies=values("entropies", np.float32),
        weights=values("weights", np.float32),
        rejected=values("rejected", np.bool_),
    )

"""Token arrays of many trials in one Parquet file: where they are once a step is over for long.

A trial is written alone, in one ``tokens.npz``, by whichever worker ran it. A file a trial is right for that, and too
much for 100,000 trials; so a step that is old enough becomes one file, ``tokens/<step>.parquet`` in the run's folder.
One row a segment, and one a trial with ``segment`` -1 for what its calls sampled (``response_ids, logprobs,
versions``).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

CALLS = -1
_SEGMENT = ("prompt_ids", "response_ids", "response_mask", "logprobs", "versions")
_OF_CALLS = {"call_ids": "response_ids", "call_logprobs": "logprobs", "call_versions": "versions"}
_TYPES = {
    "prompt_ids": np.int32,
    "response_ids": np.int32,
    "response_mask": np.uint8,
    "logprobs": np.float32,
    "versions": np.int32,
}


def table_of(folder: Path) -> Path:
    """The file that holds a trial's tokens once they have left its folder ``<run>/trials/<step>/<trial>``."""
    step = folder.absolute().parent
    return step.parent.parent / "tokens" / f"{step.name}.parquet"


def schema() -> Any:
    """The columns. ``ImportError`` without pyarrow."""
    import pyarrow as pa

    return pa.schema(
        [
            ("trial", pa.string()),
            ("segment", pa.int32()),
            *((name, pa.list_(pa.from_numpy_dtype(kind))) for name, kind in _TYPES.items()),
            ("routes", pa.binary()),
            ("routes_shape", pa.list_(pa.int32())),
            ("routes_dtype", pa.string()),
        ]
    )


def rows_of(trial: str, arrays: Mapping[str, np.ndarray]) -> Iterator[dict[str, Any]]:
    """The rows of one trial's arrays, by their names in ``tokens.npz`` (see ``record``)."""
    for segment in sorted(int(name.rsplit("_", 1)[1]) for name in arrays if name.startswith("prompt_ids_")):
        row: dict[str, Any] = {name: arrays[f"{name}_{segment}"] for name in _SEGMENT}
        routes = arrays.get(f"routes_{segment}")
        if routes is not None:
            row |= {"routes": routes.tobytes(), "routes_shape": list(routes.shape), "routes_dtype": str(routes.dtype)}
        yield {"trial": trial, "segment": segment, **row}
    yield {"trial": trial, "segment": CALLS, **{ours: arrays[theirs] for theirs, ours in _OF_CALLS.items()}}


def read_arrays(path: Path, trial: str) -> dict[str, np.ndarray]:
    """The arrays of one trial, as ``tokens.npz`` had them.

    Raises:
        OSError: when there is no such file, or nothing of that trial in it.
        ValueError: when it is none of ours, or pyarrow is missing.
    """
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        raise ValueError(f"{path}: to read it takes pyarrow: pip install pyarrow") from None
    try:
        table = pq.read_table(path, filters=[("trial", "=", trial)])
    except pa.ArrowException as error:
        raise ValueError(f"{path} is no file of tokens: {str(error).splitlines()[0]}") from error
    if not table.num_rows:
        raise FileNotFoundError(f"{path} holds nothing of {trial}")
    arrays: dict[str, np.ndarray] = {}
    for place in range(table.num_rows):
        segment = table["segment"][place].as_py()
        if segment == CALLS:
            arrays |= {theirs: _array(table, ours, place) for theirs, ours in _OF_CALLS.items()}
            continue
        arrays |= {f"{name}_{segment}": _array(table, name, place) for name in _SEGMENT}
        if (routes := table["routes"][place].as_py()) is not None:
            kind, shape = table["routes_dtype"][place].as_py(), table["routes_shape"][place].as_py()
            arrays[f"routes_{segment}"] = np.frombuffer(routes, dtype=kind).reshape(shape)
    return arrays


def _array(table: Any, name: str, place: int) -> np.ndarray:
    values = table[name][place].values
    return np.array([] if values is None else values.to_numpy(zero_copy_only=False), dtype=_TYPES[name])

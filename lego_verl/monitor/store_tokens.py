"""Makes one Parquet file of a step's token arrays, and takes their own files away once it is whole."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from lego_verl.capture.token_table import rows_of, schema, table_of

_TOGETHER = 16
"""Trials of a row group: what has to be read for one of them."""


def compact_step(step: Path) -> int:
    """Move the tokens of a step's trials into its Parquet file; how many trials were moved.

    The trials' own files go only when the new one is whole and in its place, so that a crash loses none. A trial whose
    tokens cannot be read keeps them.

    Args:
        step: ``<run>/trials/<step>``.

    Raises:
        OSError: when it cannot be written. ``ImportError`` without pyarrow.
    """
    import pyarrow.parquet as pq

    found = sorted(step.glob("*/tokens.npz"))
    target = table_of(step / "any")
    if not found:
        return 0
    there = set(pq.read_table(target, columns=["trial"])["trial"].to_pylist()) if target.exists() else set()
    new = [path for path in found if path.parent.name not in there]
    if new:
        _write(target, new, keep=target.exists())
        there = set(pq.read_table(target, columns=["trial"])["trial"].to_pylist())
    moved = [path for path in found if path.parent.name in there]
    for path in moved:
        path.unlink()
    return len(moved)


def _write(target: Path, new: Sequence[Path], *, keep: bool) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    target.parent.mkdir(exist_ok=True)
    part = target.with_suffix(".part")
    columns = schema()
    with pq.ParquetWriter(part, columns, compression="zstd") as writer:
        if keep:
            old = pq.ParquetFile(target)
            for group in range(old.num_row_groups):
                writer.write_table(old.read_row_group(group))
        for start in range(0, len(new), _TOGETHER):
            rows = [row for path in new[start : start + _TOGETHER] for row in _rows(path)]
            if rows:
                writer.write_table(pa.Table.from_pylist(rows, schema=columns))
    part.replace(target)


def _rows(path: Path) -> Iterator[dict[str, Any]]:
    try:
        with np.load(path) as file:
            arrays = dict(file)
        yield from list(rows_of(path.parent.name, arrays))
    except (ValueError, EOFError, LookupError, zipfile.BadZipFile):
        return

"""Expert routes of a sample: as many rows as positions went through the model, and none that an engine left over."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from lego_verl.capture.call import IncompleteSample, Sample

_ALIKE_ROWS = 32
_DIFFERENT_TOKENS = 8
_LEAST_VALUES = 16
"""Of a row. Two small layers may well choose the same for many tokens; twenty never do."""


def check_routes(sample: Sample, prompt_ids: Sequence[int], known: int = 0) -> None:
    """Raise ``IncompleteSample`` unless routes, where there are any, have a row for every position but the last, and
    no long run of rows is the same although their tokens are not: that is padding, or what was in memory before.

    ``known``: rows that have been looked at before.
    """
    if sample.routes is None:
        return
    rows = len(prompt_ids) + len(sample.ids) - 1
    if len(sample.routes) != rows:
        raise IncompleteSample(f"{rows} positions went through the model, {len(sample.routes)} carry expert routes")
    if rows - known < _ALIKE_ROWS or sample.routes[0].size < _LEAST_VALUES:
        return
    new = sample.routes[known:].reshape(rows - known, -1)
    changes = np.flatnonzero((new[1:] != new[:-1]).any(axis=1)) + 1
    bounds = [0, *changes.tolist(), len(new)]
    for begin, end in itertools.pairwise(bounds):
        if end - begin >= _ALIKE_ROWS:
            tokens = [*prompt_ids, *sample.ids.tolist()][known + begin : known + end]
            if len(set(tokens)) >= _DIFFERENT_TOKENS:
                raise IncompleteSample(
                    f"{end - begin} positions from {known + begin} on carry the same expert routes, whatever their "
                    "token: padding, or left over from another request"
                )

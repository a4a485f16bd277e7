"""A trial token by token: windows of a segment with all that is known, and what to know before one is shown."""

from __future__ import annotations

from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import APIRouter, Query, Response

from lego_verl.capture.record import Recording
from lego_verl.dashboard.api.common import Refused, Run, reply
from lego_verl.dashboard.api.trial import Folder, recording_in, stored
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.monitor.store_text import harmless
from lego_verl.monitor.token_fates import FATES, SAID, fate_of_trial, untrained_segments
from lego_verl.monitor.token_rows import FLOATS, NO_CALL, TokenColumns, token_columns
from lego_verl.monitor.trained_tokens import TrainedSegment, read_trained, trained_file

router = APIRouter(prefix="/api/runs/{run}/trial/{step}/{trial}")

_LARGEST = 50
_BINS = 240


@router.get("/tokens/{segment}")
def tokens(
    run: Run,
    step: int,
    trial: str,
    folder: Folder,
    segment: int,
    first: int = Query(0, ge=0),
    count: int = Query(1000, ge=1, le=1_000_000),
) -> Response:
    """Tokens of a segment from place ``first`` on, as columns; null is "not known" or "does not apply"."""
    columns, recording, _ = _columns(run, step, trial, folder, segment)
    here = slice(first, first + count)
    pieces = recording.pieces
    return reply(
        {
            "first": first,
            "total": len(columns),
            "position": columns.positions[here].tolist(),
            "id": columns.ids[here].tolist(),
            "text": [token_text(pieces.get(token, "")) for token in columns.ids[here].tolist()],
            "call": columns.calls[here].tolist(),
            "version": columns.versions[here].tolist(),
            "fate": columns.fates[here].tolist(),
            **{name: _plain(getattr(columns, name)[here]) for name in FLOATS},
        }
    )


@router.get("/tokens/{segment}/summary")
def token_summary(run: Run, step: int, trial: str, folder: Folder, segment: int) -> Response:
    """What a page must know before it shows tokens: how many of each fate, where the largest differences are, the
    widest of each scale, and means over ``bins`` of even length."""
    columns, recording, whole = _columns(run, step, trial, folder, segment)
    fates = np.bincount(columns.fates, minlength=len(FATES))
    largest = columns.largest(_LARGEST)
    pieces = recording.pieces
    return reply(
        {
            "segment": segment,
            "reason": str(recording.splits[segment]),
            "segments": [
                {"segment": index, "reason": str(split), "tokens": index not in untrained_segments(recording)}
                for index, split in enumerate(recording.splits)
            ],
            "total": len(columns),
            "prompt": columns.prompt,
            "trial": whole,
            "fates": [
                {"fate": str(fate), "tokens": int(count), "says": SAID[fate]}
                for fate, count in zip(FATES, fates, strict=True)
            ],
            "versions": sorted({int(version) for version in np.unique(columns.versions) if version >= 0}),
            "calls": _spans(columns),
            "largest": [
                {
                    "place": place,
                    "position": int(columns.positions[place]),
                    "text": token_text(pieces.get(int(columns.ids[place]), "")),
                    **{name: _number(getattr(columns, name)[place]) for name in ("logprobs", "trainer", "difference")},
                }
                for place in largest
            ],
            "differences": _about(columns.difference),
            "scale": {name: _widest(getattr(columns, name)) for name in FLOATS},
            "bins": {name: _bins(getattr(columns, name)) for name in ("difference", "logprobs", "entropies")},
            "routes": None if columns.routes is None else list(columns.routes.shape[1:]),
        }
    )


@router.get("/tokens/{segment}/experts/{place}")
def experts(run: Run, step: int, trial: str, folder: Folder, segment: int, place: int) -> Response:
    """(layers, top_k) the experts of the pass that sampled a token."""
    columns, _, _ = _columns(run, step, trial, folder, segment)
    found = columns.experts(place) if 0 <= place < len(columns) else None
    return reply({"place": place, "experts": None if found is None else found.tolist()})


def _columns(
    run: RunFolder, step: int, trial: str, folder: Path, segment: int
) -> tuple[TokenColumns, Recording, dict[str, str]]:
    row = stored(run, step, trial)["trial"]
    recording = recording_in(folder)
    fate, why = fate_of_trial(row)
    kept: dict[int, TrainedSegment] = {}
    trouble = ""
    if row["trained"] == 1:
        try:
            kept = _trained(run, row["trained_step"] or step, trial)
        except ValueError as error:
            trouble = str(error)
    try:
        columns = token_columns(recording, segment, fate, kept)
    except LookupError as error:
        raise Refused(404, str(error.args[0])) from None
    return columns, recording, {"fate": str(fate), "why": why, "trouble": trouble}


def _trained(run: RunFolder, step: int, trial: str) -> dict[int, TrainedSegment]:
    """``read_trained``, of which the latest few stay in memory."""
    try:
        return _read_trained(run.path, step, trial, trained_file(run, step).stat().st_mtime_ns)
    except FileNotFoundError:
        return {}


@lru_cache(maxsize=8)
def _read_trained(run: Path, step: int, trial: str, _changed: int) -> dict[int, TrainedSegment]:
    return read_trained(RunFolder(run), step, trial)


@lru_cache(maxsize=100_000)
def token_text(piece: str) -> str:
    """A token's text, in which characters that are not to be seen are named: they are what a token may be about."""
    return "".join(_seen(character) for character in piece)


def _seen(character: str) -> str:
    if character in "\n\t":
        return character
    if ord(character) < 0x20:
        return chr(0x2400 + ord(character))
    shown = harmless(character)
    return shown or f"\\u{ord(character):04x}"


def _plain(values: Any) -> list[float | None]:
    return [None if value != value else round(value, 7) for value in values.tolist()]


def _number(value: Any) -> float | None:
    return None if np.isnan(value) else float(value)


def _widest(values: Any) -> float | None:
    known = np.abs(values[np.isfinite(values)])
    return float(known.max()) if len(known) else None


def _about(differences: Any) -> dict[str, float | int | None]:
    known = np.abs(differences[np.isfinite(differences)]).astype(np.float64)
    if not len(known):
        return {"tokens": 0, "mean": None, "median": None, "q99": None, "max": None}
    median, q99 = np.quantile(known, (0.5, 0.99))
    return {
        "tokens": len(known),
        "mean": float(known.mean()),
        "median": float(median),
        "q99": float(q99),
        "max": float(known.max()),
    }


def _bins(values: Any) -> list[float | None]:
    """The largest |value| of each of ``_BINS`` parts of even length; None of a part without any."""
    size = np.abs(np.nan_to_num(values.astype(np.float64), nan=-1.0, posinf=-1.0, neginf=-1.0))
    size[~np.isfinite(values)] = -1.0
    edges = np.unique(np.linspace(0, len(size), min(_BINS, max(len(size), 1)) + 1).astype(int))
    return [None if (top := float(size[a:b].max())) < 0 else top for a, b in pairwise(edges.tolist())]


def _spans(columns: TokenColumns) -> list[dict[str, int]]:
    """Where the tokens of each call begin and end, by place."""
    sampled = np.flatnonzero(columns.calls != NO_CALL)
    found = []
    for call in np.unique(columns.calls[sampled]).tolist() if len(sampled) else []:
        places = np.flatnonzero(columns.calls == call)
        found.append({"call": int(call), "first": int(places[0]), "last": int(places[-1])})
    return found

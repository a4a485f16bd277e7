"""One trial: what the store holds of it, its turns, its files, and its tokens; each fetched when it is looked at."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Query, Response
from fastapi.responses import FileResponse

from lego_verl.capture.record import Recording, RecordingError
from lego_verl.capture.token_table import table_of
from lego_verl.dashboard.api.common import Refused, Run, opened, reply, trial_folder
from lego_verl.dashboard.trial_reading import FILES, file_path, file_text, recording_of, text_of, turns
from lego_verl.monitor import queries
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.monitor.store_text import harmless
from lego_verl.monitor.token_fates import fate_of_trial
from lego_verl.monitor.trained_tokens import trained_file

router = APIRouter(prefix="/api/runs/{run}/trial/{step}/{trial}")

_FILE_SHOWN = 200_000
"""Bytes of a log that are shown, its beginning and its end; of a patch more, since the end of one has no meaning
without its middle."""
_PATCH_SHOWN = 2_000_000


def _folder(run: Run, step: int, trial: str) -> Path:
    return trial_folder(run, step, trial)


Folder = Annotated[Path, Depends(_folder)]
"""The folder of the trial that an address names."""


@router.get("")
def trial(run: Run, step: int, trial: str, folder: Folder) -> Response:
    """All the store holds of it, the others of its group, what became of its tokens, and which files there are."""
    found = stored(run, step, trial)
    row = found["trial"]
    fate, why = fate_of_trial(row)
    files = {kind: _size(file_path(folder, kind)) for kind in FILES}
    files["calls"] = _size(folder / "calls.jsonl")
    tokens = "npz" if (folder / "tokens.npz").exists() else "parquet" if table_of(folder).exists() else None
    kept = row["trained"] == 1 and trained_file(run, row["trained_step"] or step).exists()
    about = {"fate": str(fate), "why": why, "files": files, "tokens": tokens, "trained_tokens": kept}
    return reply({**found, **about})


@router.get("/turns")
def turns_(
    folder: Folder, first: int = Query(0, ge=0), count: int = Query(30, ge=1, le=200), limit: int = Query(6000, ge=200)
) -> Response:
    """Calls from ``first`` on: what was new in each request, and the reply; texts shortened to ``limit`` characters."""
    recording = recording_in(folder)
    shown = turns(recording, first, count, min(limit, 100_000))
    return reply({"turns": shown, "first": first, "calls": len(recording.calls), "splits": recording.splits})


@router.get("/text/{call}/{message}/{part}")
def text(folder: Folder, call: int, message: int, part: str) -> Response:
    """A text that ``turns`` shortened, whole, to be saved: as it was written."""
    try:
        found = text_of(recording_in(folder), call, message, part)
    except (LookupError, ValueError):
        raise Refused(404, "there is no such text in this trial") from None
    return _download(found, f"{folder.name}-call{call}-{'reply' if message < 0 else message}-{part}.txt")


@router.get("/file/{kind}")
def file(folder: Folder, kind: str) -> Response:
    """A patch or a log: its beginning and end where it is long."""
    found = file_text(_known(folder, kind), _PATCH_SHOWN if kind == "patch" else _FILE_SHOWN)
    if found is None:
        raise Refused(404, f"this trial has no {kind.replace('_', ' ')}: it still runs, or retention removed it")
    return reply(found)


@router.get("/file/{kind}/whole")
def whole_file(folder: Folder, kind: str) -> Response:
    """The file as it is, to be saved."""
    path = _known(folder, kind)
    if not path.exists():
        raise Refused(404, f"this trial has no {kind.replace('_', ' ')}")
    return FileResponse(path, media_type="text/plain; charset=utf-8", filename=f"{folder.name}-{path.name}")


def stored(run: RunFolder, step: int, trial: str) -> dict[str, Any]:
    with opened(run) as db:
        found = queries.trial(db, trial, step=step)
    if found is None:
        raise Refused(404, f"{run.name} has no trial {harmless(trial, 80)!r} in step {step}")
    return found


def recording_in(folder: Path) -> Recording:
    try:
        return recording_of(folder)
    except RecordingError as error:
        if not (folder / "calls.jsonl").exists():
            why = "the calls of this trial are not kept: it still runs, its policy is known by its text alone, or "
            raise Refused(404, why + "retention (lego.monitor.keep.calls) removed them") from None
        raise Refused(404, f"the calls of this trial cannot be read: {error}") from None


def _known(folder: Path, kind: str) -> Path:
    if kind not in FILES:
        raise Refused(404, f"a trial has {', '.join(FILES)}")
    return file_path(folder, kind)


def _size(path: Path) -> int | None:
    try:
        return path.stat().st_size
    except OSError:
        return None


def _download(text: str, name: str) -> Response:
    safe = "".join(c if c.isascii() and (c.isalnum() or c in "._-") else "_" for c in name)
    headers = {"content-disposition": f'attachment; filename="{safe}"'}
    return Response(text.encode("utf-8", "replace"), media_type="text/plain; charset=utf-8", headers=headers)

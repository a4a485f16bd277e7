"""A trial turn by turn, short enough for a page: what was said and done, without secrets and without what acts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from lego_verl.capture.record import RecordingError, read_recording
from lego_verl.export.atif import atif_line
from lego_verl.export.redact import Redactor
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.monitor.store_text import harmless
from lego_verl.report.chosen import Chosen

_READ = 200_000
"""Characters of a text that are looked at; nothing beyond is shown."""
_SHOWN = 900
_END = 500
_PATCH, _LOG = 6000, 2000
_FIRST, _LAST = 16, 12
"""Turns that are shown of a long trial."""


@dataclass(frozen=True)
class Act:
    """A tool call and what it gave back."""

    name: str
    arguments: str
    results: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ReadTurn:
    """One message."""

    number: int
    who: str
    text: str
    thinking: str = ""
    acts: list[Act] = field(default_factory=list)
    results: list[str] = field(default_factory=list)
    """Given back to no call that is known."""


@dataclass(frozen=True)
class ReadTrial:
    """What a page shows of one trial."""

    row: Mapping[str, Any]
    why: str
    turns: list[ReadTurn]
    left_out: int
    """Turns between the first and the last that are shown."""
    patch: str
    log: str
    note: str
    """Why there are no turns; empty where there are."""
    error: str


def read_trial(run: RunFolder, chosen: Chosen, redactor: Redactor) -> ReadTrial:
    """Read it from its folder; what is not there, or cannot be read, is said."""
    folder = run.trial(int(chosen.row["step"]), str(chosen.row["trial"]))
    turns: list[ReadTurn] = []
    note = ""
    try:
        line = atif_line(read_recording(folder), chosen.row)
        turns = [_turn(step, redactor) for step in line["steps"]]
    except (RecordingError, OSError) as error:
        note = f"its calls cannot be read: {short(str(error), redactor)}"
    left_out = max(len(turns) - _FIRST - _LAST, 0)
    return ReadTrial(
        {key: harmless(value) if isinstance(value, str) else value for key, value in chosen.row.items()},
        chosen.why,
        turns[:_FIRST] + turns[_FIRST + left_out :],
        left_out,
        _file(folder / "patch.diff", redactor, _PATCH),
        _file(folder / "grading.log", redactor, _LOG),
        note,
        short(str(chosen.row["error"] or ""), redactor),
    )


def _turn(step: Mapping[str, Any], redactor: Redactor) -> ReadTurn:
    acts = {
        call["tool_call_id"]: Act(
            short(call["function_name"], redactor),
            short(_arguments(call["arguments"] or call.get("extra", {})), redactor),
        )
        for call in step.get("tool_calls", ())
    }
    others = []
    for result in step.get("observation", {}).get("results", ()):
        text = short(result["content"], redactor)
        if (act := acts.get(result.get("source_call_id"))) is not None:
            act.results.append(text)
        else:
            others.append(text)
    thinking = short(step.get("reasoning_content", ""), redactor)
    who = harmless(step["source"], 40)
    return ReadTurn(int(step["step_id"]), who, short(step["message"], redactor), thinking, [*acts.values()], others)


def _arguments(values: Mapping[str, Any]) -> str:
    if len(values) == 1 and isinstance(value := next(iter(values.values())), str):
        return value
    return json.dumps(values, ensure_ascii=False, indent=1)


def _file(path: Path, redactor: Redactor, shown: int) -> str:
    try:
        with path.open("rb") as file:
            text = file.read(_READ).decode("utf-8", "replace")
    except OSError:
        return ""
    return short(text, redactor, shown=shown, size=path.stat().st_size)


def short(text: str, redactor: Redactor, *, shown: int = _SHOWN, size: int | None = None) -> str:
    """A text without secrets, escapes and controls; of a long one its beginning and its end.

    Of one that is too long to be searched for secrets as a whole the beginning alone: what was cut in two is not known
    for what it is.

    Args:
        size: of the whole, where ``text`` is its beginning.
    """
    whole = len(text) if size is None else max(size, len(text))
    clean = harmless(redactor.text(harmless(text[:_READ])))
    if whole > _READ:
        return f"{clean[:shown]}\n[… {whole - shown:,} more]"
    if len(clean) <= shown + _END + 40:
        return clean
    return f"{clean[:shown]}\n[… {len(clean) - shown - _END:,} more …]\n{clean[-_END:]}"

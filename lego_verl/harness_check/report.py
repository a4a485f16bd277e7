"""A check as a JSON file, and what changed between two."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

FORMAT = 1
NOT_COMPARED = ("made", "measured", "sandbox", "runtime", "lego_verl", "slow", "source")
"""What may differ between two checks of a harness that behaves the same (``source``: an option that names a folder)."""


class ReportError(ValueError):
    """A file that holds no check; the message names it."""


def write_report(path: Path, report: Mapping[str, Any]) -> None:
    """Write a check's report, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_name(path.name + ".part")
    part.write_text(json.dumps(report, indent=1) + "\n")
    part.replace(path)


def read_report(path: Path) -> dict[str, Any]:
    """Read what ``write_report`` wrote.

    Raises:
        ReportError: when it is none.
    """
    try:
        report = json.loads(path.read_text())
    except (OSError, ValueError) as error:
        raise ReportError(f"{path} holds no harness check: {error}") from error
    if not isinstance(report, dict) or report.get("format") != FORMAT:
        raise ReportError(f"{path} holds no harness check of format {FORMAT}")
    return report


def changes(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """What differs, a line each. A scenario that only one of the two ran is not compared."""
    ran = set(before["scenarios"]) & set(now["scenarios"])
    kept = [
        {**report, "scenarios": {name: report["scenarios"][name] for name in sorted(ran)}} for report in (before, now)
    ]
    flat = [dict(_flat(report)) for report in kept]
    # These are found in one scenario each.
    for part, scenario in (("wire", "work"), ("echo", "history")):
        if scenario not in ran:
            flat = [{key: value for key, value in each.items() if not key.startswith(f"{part}.")} for each in flat]
    old, new = flat
    keys = [*old, *(key for key in new if key not in old)]
    return [f"{key}: {_shown(old, key)} -> {_shown(new, key)}" for key in keys if _shown(old, key) != _shown(new, key)]


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, inner in value.items():
        if key in NOT_COMPARED:
            continue
        if isinstance(inner, Mapping):
            yield from _flat(inner, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", inner


def _shown(flat: Mapping[str, Any], key: str) -> str:
    if key not in flat:
        return "nothing"
    value = flat[key]
    return value if isinstance(value, str) else json.dumps(value)

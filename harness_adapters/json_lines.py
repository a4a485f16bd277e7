"""What a harness prints as JSON lines, among whatever else it prints."""

from __future__ import annotations

import json
from typing import Any


def objects(output: str, kind: str) -> list[dict[str, Any]]:
    """The lines that are JSON objects with ``"type": kind``, in order; a line that was cut off is none."""
    found = []
    for line in output.splitlines():
        if line.startswith("{") and kind in line:
            try:
                value = json.loads(line)
            except ValueError:
                continue
            if isinstance(value, dict) and value.get("type") == kind:
                found.append(value)
    return found


def last_line(output: str, kind: str) -> dict[str, Any] | None:
    """The last of ``objects``; None when there is none."""
    found = objects(output, kind)
    return found[-1] if found else None

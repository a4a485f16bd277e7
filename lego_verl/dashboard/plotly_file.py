"""plotly's library for browsers, from the installed Python package, so that this project ships no copy."""

from __future__ import annotations

import re
from importlib.util import find_spec
from pathlib import Path

_STYLE = re.compile(rb'getElementById\("([0-9a-f]{64})"\)')
"""plotly writes the style of its maps into the page, unless an element with this name is there."""


def plotly_file() -> Path | None:
    """The path of ``plotly.min.js``; None where plotly is not installed. Nothing of plotly is imported."""
    spec = find_spec("plotly")
    if spec is None or spec.origin is None:
        return None
    path = Path(spec.origin).parent / "package_data" / "plotly.min.js"
    return path if path.is_file() else None


def plotly_script(path: Path) -> bytes:
    """The library, and before it what keeps it from writing inline styles: the page's policy allows none, and what it
    would write is for maps."""
    library = path.read_bytes()
    before = b"".join(
        b'{const e=document.createElement("meta");e.id="%s";document.head.append(e)}' % name
        for name in sorted(set(_STYLE.findall(library)))
    )
    return before + b"\n" + library

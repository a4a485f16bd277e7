"""Texts of a trial made harmless: what an agent printed may hold anything, and ends in files, terminals and pages."""

from __future__ import annotations

import re

_TERMINAL = re.compile(
    r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?"  # operating system commands: titles, links, the clipboard
    r"|\x1b[PX^_].*?(?:\x1b\\|$)"  # device control and private strings
    r"|\x1b\[[0-?]*[ -/]*[@-~]"  # colours, movements of the cursor
    r"|\x1b[ -/]*[0-~]"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]",  # controls; turned directions
    re.DOTALL,
)


def harmless(text: object, limit: int | None = None) -> str:
    """A text without what a terminal obeys (escapes, controls but tab and newline, turned writing directions), that can
    be written as UTF-8.

    Args:
        limit: characters to keep; a longer text ends in ``…``. Nothing beyond is looked at.
    """
    whole = text if isinstance(text, str) else str(text)
    # An escape sequence that is cut by the limit is still found: what follows it is not shown.
    cut = whole if limit is None else whole[: limit + 200]
    clean = _TERMINAL.sub("", cut).encode("utf-8", "replace").decode("utf-8")
    if limit is not None and (len(clean) > limit or len(whole) > len(cut)):
        return clean[: max(limit - 1, 0)] + "…"
    return clean


def one_line(text: object, limit: int = 120) -> str:
    """A harmless text in one line of at most ``limit`` characters."""
    some = text if isinstance(text, str) else str(text)
    return harmless(" ".join(harmless(some[: 8 * limit]).split()), limit)

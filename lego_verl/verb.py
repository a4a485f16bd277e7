"""What the verbs of the command line do alike: their console, and how they end."""

from __future__ import annotations

import sqlite3
import sys
from collections.abc import Callable, Mapping

from rich.console import Console

_FILE_WIDTH = 160
"""Columns of a table where there is no terminal: a file, a pipe, a CI log."""


def wide_console() -> Console:
    """A console that does not cut lines where no terminal sets the width."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = max(console.width, _FILE_WIDTH)
    return console


def ended(
    act: Callable[[], int],
    codes: Mapping[type[Exception], int],
    *,
    interrupted: str = "interrupted; nothing of it is running any more",
) -> int:
    """Do what a verb does, and say in one line why it could not be done.

    Args:
        act: returns the exit code.
        codes: of the errors that a person can do something about; the first that fits counts. Any other is a fault of
            this program, and leaves with its traceback.
        interrupted: what is said after Ctrl-C, which is 130.
    """
    try:
        return act()
    except tuple(codes) as error:
        print(f"lego_verl: {_one_line(error)}", file=sys.stderr)
        return next(code for kind, code in codes.items() if isinstance(error, kind))
    except KeyboardInterrupt:
        print(interrupted, file=sys.stderr)
        return 130


def _one_line(error: Exception) -> str:
    """The system's errors (a disk that is full, a file that may not be written) come without their number."""
    if isinstance(error, sqlite3.Error):  # which names no file
        return f"the run's store cannot be used: {error}"
    if isinstance(error, OSError) and error.strerror:
        return f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    return str(error)

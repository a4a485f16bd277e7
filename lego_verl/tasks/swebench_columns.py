"""One row of a dataset, read column by column; what cannot be used is named by row and column."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from lego_verl.tasks.task import TaskError

_SHOWN = 60


class Columns:
    """A row. Every method raises ``TaskError``, in one line."""

    def __init__(self, where: str, row: Mapping[str, Any]) -> None:
        """``where`` says which row it is."""
        self._where, self._row = where, row
        self.id = ""
        name = self.text("instance_id")
        if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]*", name):
            raise self.wrong("instance_id", f"{name!r} cannot be the name of a folder")
        self.id = name

    def wrong(self, column: str, what: str) -> TaskError:
        name = f" ({self.id})" if self.id else ""
        return TaskError(f"{self._where}{name}: column {column}: {what}")

    def text(self, column: str, default: str | None = None) -> str:
        """A text; without a default it may not be missing or empty."""
        value = self._row.get(column)
        if value is None and default is not None:
            return default
        if value is None or (isinstance(value, str) and not value.strip() and default is None):
            raise self.wrong(column, "is missing or empty")
        if not isinstance(value, str):
            raise self.wrong(column, f"it is {_shown(value)}, not a text")
        return value

    def names(self, column: str, default: list[str] | None = None) -> list[str]:
        """A list of texts, or JSON of one."""
        value = self._plain(column)
        if value is None and default is not None:
            return default
        if value is None:
            raise self.wrong(column, "is missing")
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise self.wrong(column, f"it is {_shown(value)}, not a list of names")
        return value

    def mapping(self, column: str) -> Mapping[str, Any]:
        """Names with values, or JSON of them; empty where there are none."""
        value = self._plain(column)
        if value and not isinstance(value, dict):
            raise self.wrong(column, f"it is {_shown(value)}, not names with values")
        return value or {}

    def patch(self, column: str) -> bytes:
        """A git patch; empty where there is none."""
        text = self.text(column, default="")
        if not text.strip():
            return b""
        if not re.search(r"^diff --git ", text, re.MULTILINE):
            raise self.wrong(column, "it is not a git patch (a line `diff --git a/… b/…`)")
        # Datasets strip texts, and git leaves out without a word a binary part that has no empty line after it.
        end = "\n\n" if "\nGIT binary patch\n" in text[text.rindex("diff --git ") :] else "\n"
        return encoded(text if text.endswith(end) else text.removesuffix("\n") + end)

    def kept(self, columns: tuple[str, ...]) -> dict[str, str]:
        """The texts of those columns that have one."""
        return {column: str(self._row[column]) for column in columns if self._row.get(column) not in (None, "")}

    def _plain(self, column: str) -> Any:
        value = self._row.get(column)
        if not isinstance(value, str) or not value:
            return value
        try:
            return json.loads(value)
        except ValueError:
            raise self.wrong(column, f"{_shown(value)} is not JSON") from None


def encoded(text: str) -> bytes:
    """The bytes of a text that ``read_rows`` gave."""
    return text.encode(errors="surrogateescape")


def _shown(value: object) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else f"{text[:_SHOWN]}…"

"""Rows of a dataset in SWE-bench's columns: from a file, from swebench 5's folders of tasks, or from the hub."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from lego_verl.tasks.task import TaskError

Row = dict[str, Any]
_SUFFIXES = (".parquet", ".jsonl", ".json")
_TASK_FILE, _TESTS_FILE = "task.yaml", "tests.json"
_AS_FILES = {
    "problem_statement": "problem_statement.md",
    "patch": "gold.patch",
    "test_patch": "test.patch",
    "eval_script": "eval.sh",
    "dockerfile": "Dockerfile",
}
"""Columns that swebench 5 keeps as files of their own."""
_NEEDS_EXTRA = "needs the extra swebench: pip install 'lego_verl[swebench]'"


def read_rows(source: str, split: str = "test") -> list[tuple[str, Row]]:
    """All rows, each with where it stands (for messages).

    ``source`` is a ``.parquet``, ``.jsonl`` or ``.json`` file, a folder of them (those whose names begin with
    ``split``, if any does), a folder of swebench 5 (one task, or many in it or in its ``tasks``), or the name of a
    dataset on the hub.

    Raises:
        TaskError: when it is none of these, cannot be read, or has no row.
    """
    path = Path(source)
    if path.is_dir():
        rows = list(_of_folder(path, split))
    elif path.suffix in _SUFFIXES and path.exists():
        rows = list(_of_file(path))
    elif path.suffix in _SUFFIXES or not _is_hub_name(source):
        raise TaskError(f"{source}: there is no such file or folder, and it is no name of a dataset (OWNER/NAME)")
    else:
        rows = list(_of_hub(source, split))
    if not rows:
        raise TaskError(f"{source}: it has no row")
    return rows


def _is_hub_name(source: str) -> bool:
    return source.count("/") == 1 and not source.startswith(("/", "."))


def _of_folder(folder: Path, split: str) -> Iterator[tuple[str, Row]]:
    if (folder / _TASK_FILE).is_file():
        yield _of_task(folder)
        return
    root = folder / "tasks" if (folder / "tasks").is_dir() else folder
    tasks = sorted(each.parent for each in root.glob(f"*/{_TASK_FILE}"))
    if tasks:
        yield from (_of_task(each) for each in tasks)
        return
    files = sorted(each for each in folder.rglob("*") if each.suffix in _SUFFIXES and each.is_file())
    if not files:
        raise TaskError(f"{folder}: it holds neither tasks with a {_TASK_FILE} nor a file {', '.join(_SUFFIXES)}")
    for file in [each for each in files if each.name.startswith(split)] or files:
        yield from _of_file(file)


def _of_task(folder: Path) -> tuple[str, Row]:
    """One task of swebench 5, as a row."""
    try:
        row = yaml.safe_load((folder / _TASK_FILE).read_text())
        tests = json.loads((folder / _TESTS_FILE).read_text())
    except FileNotFoundError as error:
        raise TaskError(f"{error.filename}: is missing") from None
    except (yaml.YAMLError, ValueError, OSError) as error:
        raise TaskError(f"{folder}: cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(row, dict) or not isinstance(tests, dict):
        raise TaskError(f"{folder}: {_TASK_FILE} and {_TESTS_FILE} are to hold names with values")
    row = {"instance_id": folder.name, **row, **tests}
    for column, name in _AS_FILES.items():
        path = folder / name
        if path.is_file():
            row[column] = path.read_bytes().decode(errors="surrogateescape")
    return str(folder), row


def _of_file(path: Path) -> Iterator[tuple[str, Row]]:
    try:
        if path.suffix == ".parquet":
            rows = _of_parquet(path)
        elif path.suffix == ".json":
            rows = json.loads(path.read_text())
            rows = list(rows.values()) if isinstance(rows, dict) else rows
        else:
            rows = [json.loads(line) for line in path.read_bytes().split(b"\n") if line.strip()]
    except (ValueError, OSError) as error:
        raise TaskError(f"{path}: cannot be read: {' '.join(str(error).split())}") from None
    if not isinstance(rows, list):
        raise TaskError(f"{path}: it is not a list of rows")
    for number, row in enumerate(rows, 1):
        if not isinstance(row, dict):
            raise TaskError(f"{path}: row {number}: it is {row!r:.60}, not names with values")
        yield f"{path}: row {number}", row


def _of_parquet(path: Path) -> list[Row]:
    try:
        import pyarrow.parquet as pq  # of an extra: a trial by itself has no need of it
    except ImportError:
        raise TaskError(f"{path}: {_NEEDS_EXTRA}") from None
    rows: list[Row] = pq.read_table(path).to_pylist()
    return rows


def _of_hub(name: str, split: str) -> Iterator[tuple[str, Row]]:
    try:
        from datasets import load_dataset
    except ImportError:
        raise TaskError(f"{name}: to read a dataset of the hub {_NEEDS_EXTRA}") from None
    try:
        rows = load_dataset(name, split=split)
    except (OSError, ValueError) as error:  # no network, no such dataset, no such split
        raise TaskError(f"{name}: cannot be had: {' '.join(str(error).split())[:300]}") from None
    for number, row in enumerate(rows, 1):
        yield f"{name}: row {number}", dict(row)

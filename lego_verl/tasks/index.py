"""What a check of tasks found, as a file that training reads: which tasks to use, and what is known of each."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lego_verl.tasks.task import Task, TaskError

VERSION = 1


def write_index(path: Path, found: Mapping[str, Mapping[str, Any]], settings: Mapping[str, Any]) -> None:
    """Write what was found of tasks, by name; what the index says of others that were examined before is kept."""
    tasks: dict[str, Mapping[str, Any]] = {}
    if path.is_file():
        tasks = _read(path)["tasks"]
    tasks |= found
    usable = sorted(name for name, each in tasks.items() if each["usable"])
    content = {"version": VERSION, "settings": dict(settings), "usable": usable, "tasks": dict(sorted(tasks.items()))}
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f"{path.name}.{os.getpid()}")
    temporary.write_text(json.dumps(content, indent=1))
    temporary.replace(path)


def usable_tasks(tasks: Sequence[Task], path: Path) -> list[Task]:
    """Those of ``tasks`` that the index calls usable, as they are now: a task that was changed since is not one.

    Raises:
        TaskError: when there is no such index, or none of the tasks is usable.
    """
    known = _read(path)["tasks"]
    kept = [
        task for task in tasks if (each := known.get(task.name)) and each["usable"] and each["digest"] == task.digest
    ]
    if not kept:
        raise TaskError(f"{path}: none of {len(tasks)} tasks is usable; see `problems` there, or check them again")
    return kept


def controlled_tasks(path: Path) -> frozenset[str]:
    """Digests of the tasks whose rewards are to be held against turned tests (``sandbox.grader.grade``: control)."""
    return frozenset(each["digest"] for each in _read(path)["tasks"].values() if each["control"])


def _read(path: Path) -> dict[str, Any]:
    try:
        content = json.loads(path.read_text())
    except FileNotFoundError:
        raise TaskError(f"{path}: there is no such index; python -m lego_verl.tasks check makes one") from None
    except ValueError as error:
        raise TaskError(f"{path}: not an index of tasks: {error}") from None
    if not isinstance(content, dict) or content.get("version") != VERSION:
        raise TaskError(f"{path}: not an index of tasks of version {VERSION}")
    return content

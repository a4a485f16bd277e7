"""Writes tasks in Harbor's layout: ``task.toml, instruction.md, environment/, tests/, solution/``."""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from lego_verl.tasks.task import TaskError

SCHEMA_VERSION = "1.4"


@dataclass(frozen=True)
class TaskFiles:
    """The contents of one task. Mappings are from a path relative to their folder to bytes; ``*.sh`` become executable.

    Without a ``Dockerfile`` in ``environment``, ``image`` must name a container image.
    """

    instruction: str
    environment: Mapping[str, bytes]
    tests: Mapping[str, bytes]
    solution: Mapping[str, bytes] = field(default_factory=dict)
    name: str | None = None
    """``organisation/name``, as Harbor's registry has it."""
    image: str | None = None
    workdir: str | None = None
    """Only where the Dockerfile does not say it."""
    metadata: Mapping[str, str | int | float | bool | list[str]] = field(default_factory=dict)
    agent_timeout: float = 600.0
    """Seconds."""
    verifier_timeout: float = 600.0
    """Seconds."""
    memory_mb: int = 2048
    storage_mb: int = 10240


def write_task(folder: Path, task: TaskFiles) -> None:
    """Write a task to ``folder``, which is replaced when it is a task already.

    Raises:
        TaskError: when ``folder`` has other things in it, or a path would lead out of it.
    """
    remove_task(folder)
    parts = {"environment": task.environment, "tests": task.tests, "solution": task.solution}
    for part, files in parts.items():
        for name, content in files.items():
            target = folder / part / name
            if not target.resolve().is_relative_to((folder / part).resolve()):
                raise TaskError(f"{folder.name}: {part}/{name} would lie outside of the task")
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(content)
            target.chmod(0o755 if name.endswith(".sh") else 0o644)
    (folder / "instruction.md").write_text(task.instruction)
    (folder / "task.toml").write_text(_toml(task))


def remove_task(folder: Path) -> None:
    """Delete a task, if it is there.

    Raises:
        TaskError: when ``folder`` is something else, which is left as it is.
    """
    if not folder.exists():
        return
    if not folder.is_dir() or (any(folder.iterdir()) and not (folder / "task.toml").is_file()):
        raise TaskError(f"{folder} is not a task and is not overwritten; choose another folder")
    shutil.rmtree(folder)


def _toml(task: TaskFiles) -> str:
    environment: dict[str, object] = {"memory_mb": task.memory_mb, "storage_mb": task.storage_mb}
    if task.image:
        environment["docker_image"] = task.image
    if task.workdir:
        environment["workdir"] = task.workdir
    tables: dict[str, Mapping[str, object]] = {
        "task": {"name": task.name} if task.name else {},
        "metadata": task.metadata,
        "verifier": {"timeout_sec": task.verifier_timeout},
        "agent": {"timeout_sec": task.agent_timeout},
        "environment": environment,
    }
    lines = [f'schema_version = "{SCHEMA_VERSION}"']
    for table, values in tables.items():
        if values:
            lines += ["", f"[{table}]"] + [f"{_key(key)} = {_toml_value(value)}" for key, value in values.items()]
    return "\n".join(lines) + "\n"


def _key(key: str) -> str:
    return key if key.replace("_", "").replace("-", "").isalnum() and key.isascii() else _toml_value(key)


def _toml_value(value: object) -> str:
    """A JSON string, number, truth value or list is TOML too, but for surrogate pairs and a bare DEL."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")

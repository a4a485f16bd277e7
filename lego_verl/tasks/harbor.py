"""Reads tasks in Harbor's layout, schema 1.x: ``task.toml, instruction.md, environment/, tests/, solution/``."""

from __future__ import annotations

import hashlib
import posixpath
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lego_verl.tasks.task import Task, TaskError
from sandbox.report import FILE as REPORT
from sandbox.report import read_report

DEFAULT_WORKDIR = "/testbed"
"""Where an image that comes without a Dockerfile is taken to have its repository, unless task.toml says it."""
_AGENT_SECONDS = _VERIFIER_SECONDS = 600.0
_MEMORY_MB, _STORAGE_MB = 2048, 10240
_UNITS = {"": 1 / (1 << 20), "k": 1 / (1 << 10), "m": 1.0, "g": 1024.0, "t": 1024.0**2}


def load_tasks(folder: Path) -> list[Task]:
    """All tasks in ``folder`` (each a folder with a ``task.toml``), by name.

    Raises:
        TaskError: when there is none, or one of them cannot be used.
    """
    if not folder.is_dir():
        raise TaskError(f"{folder} is not a folder of tasks: it does not exist")
    if (folder / "task.toml").is_file():
        raise TaskError(f"{folder} is itself a task; name the folder that holds it: {folder.parent}")
    found = sorted(path.parent for path in folder.glob("*/task.toml"))
    if not found:
        raise TaskError(f"{folder} holds no task: none of its folders has a task.toml")
    return [read_task(path) for path in found]


def read_task(folder: Path) -> Task:
    """One task.

    Raises:
        TaskError: with the task, the file and what is wrong with it.
    """
    folder = folder.absolute()
    settings = _settings(folder)
    agent, verifier = _table(folder, settings, "agent"), _table(folder, settings, "verifier")
    environment = _table(folder, settings, "environment")
    image = environment.get("docker_image")
    if image is not None and not isinstance(image, str):
        raise _error(folder, "task.toml", f"environment.docker_image is {image!r}, not the name of an image")
    if settings.get("steps"):
        raise _error(folder, "task.toml", "tasks of several steps ([[steps]]) are not read")
    return Task(
        name=folder.name,
        instruction=_instruction(folder),
        folder=folder,
        environment=folder / "environment",
        tests=_tests(folder),
        solution=folder / "solution" if (folder / "solution").is_dir() else None,
        image=image,
        workdir=_workdir(folder, environment, image),
        agent_timeout=_number(folder, agent, "agent.timeout_sec", _AGENT_SECONDS),
        verifier_timeout=_number(folder, verifier, "verifier.timeout_sec", _VERIFIER_SECONDS),
        memory_mb=_megabytes(folder, environment, "memory", _MEMORY_MB),
        storage_mb=_megabytes(folder, environment, "storage", _STORAGE_MB),
        digest=_digest(folder),
        metadata=_metadata(folder, settings),
    )


def _error(folder: Path, file: str, what: str) -> TaskError:
    return TaskError(f"task {folder.name}: {folder / file}: {what}")


def _settings(folder: Path) -> dict[str, Any]:
    try:
        settings = tomllib.loads((folder / "task.toml").read_text())
    except FileNotFoundError:
        raise _error(folder, "task.toml", "is missing") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise _error(folder, "task.toml", f"is not TOML: {error}") from None
    version = str(settings.get("schema_version", settings.get("version", "1.0")))
    if version.partition(".")[0] != "1":
        raise _error(folder, "task.toml", f"has schema_version {version}; 1.x is read")
    return settings


def _table(folder: Path, settings: Mapping[str, Any], name: str) -> dict[str, Any]:
    table = settings.get(name, {})
    if not isinstance(table, dict):
        raise _error(folder, "task.toml", f"{name} is {table!r}, not a table: write [{name}]")
    return table


def _instruction(folder: Path) -> str:
    try:
        text = (folder / "instruction.md").read_text()
    except FileNotFoundError:
        raise _error(folder, "instruction.md", "is missing") from None
    except UnicodeDecodeError as error:
        raise _error(folder, "instruction.md", f"is not UTF-8 text: {error}") from None
    if not text.strip():
        raise _error(folder, "instruction.md", "is empty: the agent would have nothing to do")
    return text.strip()


def _tests(folder: Path) -> Path:
    script = folder / "tests" / "test.sh"
    if (folder / "tests" / REPORT).is_file():
        return _report(folder)
    if not script.is_file():
        raise _error(folder, "tests/test.sh", "is missing: without tests there is no reward")
    if not script.read_bytes().strip():
        raise _error(folder, "tests/test.sh", "is empty: without tests there is no reward")
    return script.parent


def _report(folder: Path) -> Path:
    """The tests of a task in SWE-bench's form: its file says what a report of tests has to say."""
    try:
        read_report(folder / "tests")
    except (ValueError, OSError) as error:
        raise _error(folder, f"tests/{REPORT}", str(error)) from None
    return folder / "tests"


def _workdir(folder: Path, environment: Mapping[str, Any], image: str | None) -> str:
    """What task.toml says, else the Dockerfile's last WORKDIR (``/`` without one, as Docker has it)."""
    dockerfile = folder / "environment" / "Dockerfile"
    if not dockerfile.is_file() and image is None:
        raise _error(folder, "environment/Dockerfile", "is missing, and task.toml names no environment.docker_image")
    said = environment.get("workdir")
    if said is not None:
        if not isinstance(said, str) or not said.startswith("/"):
            raise _error(folder, "task.toml", f"environment.workdir is {said!r}, not an absolute path")
        return posixpath.normpath(said)
    if not dockerfile.is_file():
        return DEFAULT_WORKDIR
    workdir = "/"
    for line in dockerfile.read_text(errors="replace").splitlines():
        if match := re.match(r"\s*(FROM|WORKDIR)\s+(.+)", line, re.IGNORECASE):
            # every stage begins anew
            target = match[2].strip().strip("\"'")
            workdir = "/" if match[1].upper() == "FROM" else posixpath.normpath(posixpath.join(workdir, target))
    if "$" in workdir:
        raise _error(folder, "environment/Dockerfile", f"WORKDIR {workdir} has a variable; say environment.workdir")
    return workdir


def _number(folder: Path, table: Mapping[str, Any], name: str, default: float) -> float:
    value = table.get(name.rpartition(".")[2], default)
    if isinstance(value, bool) or not isinstance(value, int | float) or value <= 0:
        raise _error(folder, "task.toml", f"{name} is {value!r}, not a number above 0")
    return float(value)


def _megabytes(folder: Path, environment: Mapping[str, Any], name: str, default: int) -> int:
    """``memory_mb = 2048``, or ``memory = "2G"`` as older tasks have it."""
    if f"{name}_mb" in environment or name not in environment:
        return int(_number(folder, environment, f"environment.{name}_mb", default))
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)i?b?\s*", str(environment[name]), re.IGNORECASE)
    if match is None or float(match[1]) == 0:
        raise _error(folder, "task.toml", f"environment.{name} is {environment[name]!r}; write {name}_mb = 2048")
    return max(1, int(float(match[1]) * _UNITS[match[2].lower()]))


def _metadata(folder: Path, settings: Mapping[str, Any]) -> dict[str, Any]:
    """[metadata], and under ``task.toml`` everything else that was said and is not used here."""
    used = {
        "agent": {"timeout_sec"},
        "verifier": {"timeout_sec"},
        "environment": {"docker_image", "workdir", "memory_mb", "storage_mb", "memory", "storage"},
        "metadata": set(_table(folder, settings, "metadata")),
        "schema_version": None,
        "version": None,
    }
    rest: dict[str, Any] = {}
    for name, value in settings.items():
        known = used.get(name, set())
        if known is None:
            continue
        left = {key: item for key, item in value.items() if key not in known} if isinstance(value, dict) else value
        if left != {}:
            rest[name] = left
    metadata = dict(_table(folder, settings, "metadata"))
    return metadata | ({"task.toml": rest} if rest else {})


def _digest(folder: Path) -> str:
    """sha256 over path, executable bit and contents of every file; links count by what they say."""
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*"), key=lambda one: one.relative_to(folder).as_posix()):
        if path.is_symlink():
            kind, content = "link", str(path.readlink()).encode()
        elif path.is_file():
            kind, content = ("program" if path.stat().st_mode & 0o100 else "file"), path.read_bytes()
        else:
            continue
        whole.update(f"{kind} {len(content)} {path.relative_to(folder).as_posix()}\0".encode())
        whole.update(content)
    return whole.hexdigest()

"""The folder of an evaluation: what it is an evaluation of, and which of its trials are done.

A trial that is in it with a verdict is never run again, whatever ended the program. One that infrastructure ended has
no verdict: the same command runs it again.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lego_verl.config import ConfigError
from lego_verl.evaluate.plan import Planned
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.trial.record import TrialRecord

STEP = 0
"""The step that the trials of an evaluation stand under, in a folder like a training run's."""
_IDENTITY = "evaluation.json"
_LOCK = ".lock"


def open_folder(path: Path) -> RunFolder:
    """The folder, made if need be.

    Raises:
        ConfigError: when it cannot be made.
    """
    run = RunFolder(path)
    try:
        run.create()
    except OSError as error:
        raise ConfigError(f"out={path} cannot be used: {error.strerror}") from error
    return run


@contextmanager
def held(run: RunFolder) -> Iterator[None]:
    """Keep others from writing into the folder. The kernel gives it back when the process ends, however it ends.

    Raises:
        ConfigError: when an evaluation is writing into it.
    """
    with (run.path / _LOCK).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ConfigError(f"out={run.path}: another evaluation is writing into it") from None
        yield


def begin_or_go_on(run: RunFolder, identity: Mapping[str, Mapping[str, Any]]) -> None:
    """Write down what is evaluated, or see that the folder is of the same.

    Args:
        identity: tables of values. Keys that are new are added; those that are known must have the same value.

    Raises:
        ConfigError: naming the first key that differs, or when the file is none.
    """
    path = run.path / _IDENTITY
    known: dict[str, dict[str, Any]] = {}
    if path.exists():
        try:
            known = {str(table): dict(values) for table, values in json.loads(path.read_text()).items()}
        except (ValueError, AttributeError, TypeError) as error:
            raise ConfigError(f"{path} is not what an evaluation writes: name another folder with out=") from error
    for table, values in identity.items():
        for key, value in json.loads(json.dumps(values)).items():
            before = known.setdefault(table, {}).setdefault(key, value)
            if before != value:
                raise ConfigError(
                    f"out={run.path} was begun with {table}.{key}={before}, and now it is {value}: name another folder"
                )
    part = path.with_suffix(".part")
    part.write_text(json.dumps(known, indent=1) + "\n")
    part.replace(path)


def read_records(run: RunFolder, planned: Sequence[Planned]) -> dict[str, TrialRecord]:
    """The records of the trials that ended, by name; those of a task that has changed since are left out."""
    found = {}
    for each in planned:
        record = _read(run.trial(STEP, each.name))
        if record is not None and record.versions.get("task") == each.task.digest:
            found[each.name] = record
    return found


def _read(folder: Path) -> TrialRecord | None:
    try:
        return TrialRecord.from_dict(json.loads((folder / "trial.json").read_text()))
    except (OSError, ValueError, TypeError, LookupError, AttributeError):
        return None

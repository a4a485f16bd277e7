"""What a run keeps of its old steps. The store itself, ``metrics.jsonl`` and each trial's record always stay."""

from __future__ import annotations

import sys
import threading
import time
from dataclasses import dataclass, fields
from pathlib import Path

from lego_verl.config import Retention, Tokens
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.monitor.store_tokens import compact_step
from lego_verl.monitor.trained_tokens import trained_file

_FILES = {"calls": ("calls.jsonl",), "logs": ("harness.log", "grading.log"), "patches": ("patch.diff",)}


@dataclass
class Retained:
    """What was done."""

    steps: int = 0
    compacted: int = 0
    """Trials whose tokens are in a Parquet file now."""
    removed: int = 0
    """Files."""
    freed: int = 0
    """Bytes of those."""


def apply_retention(run: RunFolder, keep: Retention, newest: int) -> Retained:
    """Do what the settings say with every step that is older than the newest ``keep.steps``. Doing it again does
    nothing.

    Raises:
        OSError: a file that cannot be written or removed.
    """
    done = Retained()
    for step in sorted(run.trials.glob("[0-9]*")):
        number = int(step.name) if step.name.isdigit() else None
        if number is None or number > newest - keep.steps or (keep.every and number % keep.every == 0):
            continue
        done.steps += 1
        if keep.tokens is Tokens.parquet:
            done.compacted += compact_step(step)
        names = [name for key, files in _FILES.items() if not getattr(keep, key) for name in files]
        if keep.tokens is Tokens.drop:
            names.append("tokens.npz")
            _remove(run.tokens / f"{step.name}.parquet", done)
            _remove(trained_file(run, number), done)
        for trial in step.iterdir() if names else ():
            for name in names:
                _remove(trial / name, done)
    return done


def _remove(path: Path, done: Retained) -> None:
    try:
        size = path.stat().st_size
        path.unlink()
    except FileNotFoundError:
        return
    done.removed, done.freed = done.removed + 1, done.freed + size


def retention_of(run: RunFolder) -> Retention:
    """The settings of a run's recipe; the usual ones where it has none."""
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    try:
        given = OmegaConf.to_container(OmegaConf.load(run.recipe))
        for key in ("lego", "monitor", "keep"):
            given = given.get(key) if isinstance(given, dict) else None
        known = {each.name for each in fields(Retention)}
        part = {key: value for key, value in given.items() if key in known} if isinstance(given, dict) else {}
        settings = OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(Retention), part))
        assert isinstance(settings, Retention)
        return settings
    except (OSError, OmegaConfBaseException):
        return Retention()


class Housekeeper:
    """Applies a run's retention beside its training, one step's at a time, and never stops it."""

    def __init__(self, run: RunFolder) -> None:
        self._run, self._working = run, threading.Lock()
        self._settings: Retention | None = None
        self._seconds = 0.0

    def step_closed(self, step: int) -> threading.Thread | None:
        """Begin to clear up; None while that of an earlier step is still at it."""
        if not self._working.acquire(blocking=False):
            return None
        thread = threading.Thread(target=self._work, args=(step,), name="retention", daemon=True)
        thread.start()
        return thread

    def take_seconds(self) -> float:
        """Processor time that it took since it was last asked; 0 while it is at it."""
        if not self._working.acquire(blocking=False):
            return 0.0
        seconds, self._seconds = self._seconds, 0.0
        self._working.release()
        return seconds

    def _work(self, step: int) -> None:
        began = time.thread_time()
        try:
            self._settings = self._settings or retention_of(self._run)
            apply_retention(self._run, self._settings, step)
        except (OSError, ImportError, ValueError) as error:
            print(f"lego_verl: RUN FOLDER: old steps cannot be cleared up: {error}", file=sys.stderr, flush=True)
        finally:
            self._seconds += time.thread_time() - began
            self._working.release()

"""Checkpoints on a disk that may be full: the last good one stays, and nobody trains for days unsaved.

What cannot be saved is tried again after every step, since a step of work is in memory and room can be made while
training goes on. After as many further steps as lie between two checkpoints of the recipe (``trainer.save_freq``) the
run stops: twice what the recipe is ready to lose is the most that a crash can then cost.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from lego_verl.monitor.run_folder import RunFolder

_TRACKER = "latest_checkpointed_iteration.txt"
_WORDS = (
    *("no space left", "quota exceeded", "read-only file system", "enospc", "edquot"),
    *("pytorchstreamwriter failed", "inline_container", "file write failed", "unable to write"),
)
_MARGIN = 1.05
"""A checkpoint is about as large as the one before."""


class CheckpointError(RuntimeError):
    """No checkpoint could be written for too long; one line that says what to do."""


class Checkpoints:
    """Writes the checkpoints of one run.

    Args:
        save_freq: steps between two of them.
        tell: takes (step, what was seen, what to look at): an alert.
        over: takes the step in which it is over.
    """

    def __init__(
        self, run: RunFolder, save_freq: int, tell: Callable[[int, str, str], None], over: Callable[[int], None]
    ) -> None:
        self._run, self._every, self._tell, self._over = run, max(save_freq, 1), tell, over
        self._good = run.last_checkpoint()
        self._owed: int | None = None

    @property
    def owed(self) -> bool:
        """Whether the last one could not be written."""
        return self._owed is not None

    def save(self, step: int, write: Callable[[], None], *, last: bool) -> None:
        """Write the checkpoint of a step, or say that it cannot be written.

        Args:
            last: no step follows.

        Raises:
            CheckpointError: when it is the last, or the last of too many, that cannot be written.
        """
        try:
            self._need_room()
            write()
        except Exception as error:
            # Whatever verl's workers raised comes wrapped by Ray; what has nothing to do with the disk goes on.
            if not self._of_the_disk(error):
                raise
            self._failed(step, error, last=last)
        else:
            if self.owed:
                self._over(step)
            self._good, self._owed = step, None

    def _failed(self, step: int, error: Exception, *, last: bool) -> None:
        shutil.rmtree(self._run.checkpoints / f"global_step_{step}", ignore_errors=True)
        self._point_at_the_last_good()
        began = self._owed = step if self._owed is None else self._owed
        good = f"the last good one is of step {self._good}" if self._good else "there is none before it"
        why = " ".join(str(error).split())[-300:]
        if last or step - began >= self._every:
            raise CheckpointError(
                f"the checkpoint of step {step} cannot be written, and none could since step {began}: {why}; {good}. "
                f"Make room in {self._run.checkpoints} and start the run again: it goes on from there"
            ) from error
        if step == began:
            self._tell(
                step,
                f"the checkpoint of step {step} cannot be written: {why}; {good}. Training goes on and tries again "
                f"after every step, and stops at step {began + self._every}",
                f"the room on the disk that holds {self._run.checkpoints}; older checkpoints may go "
                "(trainer.max_actor_ckpt_to_keep)",
            )

    def _need_room(self) -> None:
        """A checkpoint that will not fit is not begun: one rank that fails would leave the others waiting."""
        if not self._good:
            return
        needed = folder_size(self._run.checkpoints / f"global_step_{self._good}")
        free = shutil.disk_usage(self._run.checkpoints).free
        if free < _MARGIN * needed:
            raise OSError(f"no space left: {free >> 20} MiB are free, and the last one took {needed >> 20} MiB")

    def _point_at_the_last_good(self) -> None:
        """verl empties its tracker before it writes it."""
        tracker = self._run.checkpoints / _TRACKER
        if self._good and tracker.exists() and tracker.read_text().strip() != str(self._good):
            part = tracker.with_suffix(".part")
            try:
                part.write_text(str(self._good))
                part.replace(tracker)
            except OSError:  # then a resume finds it by its files: RunFolder.last_checkpoint
                tracker.unlink(missing_ok=True)

    def _of_the_disk(self, error: Exception) -> bool:
        text = str(error).lower()
        return any(words in text for words in _WORDS)


def folder_size(folder: Path) -> int:
    """Bytes of all files in a folder; 0 where there is none."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())

"""Lines that a full disk does not take wait, and come in order when there is room."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from lego_verl.monitor import run_folder
from lego_verl.monitor.kept_lines import KeptLines
from lego_verl.monitor.run_folder import RunFolder, read_lines


class Disk:
    """Takes so many bytes, and then no more."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.room = 1 << 20
        self._write = os.write
        monkeypatch.setattr(run_folder.os, "write", self.write)

    def write(self, descriptor: int, data: bytes) -> int:
        if self.room <= 0:
            raise OSError(errno.ENOSPC, "No space left on device")
        taken = self._write(descriptor, data[: self.room])
        self.room -= taken
        return taken


def test_nothing_is_lost_and_a_torn_line_tears_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, said = Disk(monkeypatch), list[str]()
    lines = KeptLines(tmp_path / "metrics.jsonl", say=said.append)
    assert lines.append({"step": 1})
    disk.room = 5  # the next line is cut
    assert [lines.append({"step": step}) for step in (2, 3, 4)] == [False] * 3
    assert lines.waiting == 3
    disk.room = 1 << 20
    assert lines.append({"step": 5})
    assert [line["step"] for line in read_lines(lines.path)] == [1, 2, 3, 4, 5]
    assert len(said) == 2
    assert "cannot be written: No space left on device. The run goes on" in said[0]
    assert said[1].endswith("is written again")


def test_what_waits_has_a_bound_and_what_is_lost_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, said = Disk(monkeypatch), list[str]()
    lines = KeptLines(tmp_path / "events.jsonl", say=said.append, most=2)
    disk.room = 0
    for step in range(5):
        lines.append({"step": step})
    disk.room = 1 << 20
    assert lines.append({"step": 9})
    # The one that made it write again found no room to wait in either.
    assert [line["step"] for line in read_lines(lines.path)] == [0, 1]
    assert said[-1].endswith("is written again; 4 records are lost")
    assert lines.append({"step": 10})


def test_a_tracker_that_a_full_disk_emptied_is_no_beginning(tmp_path: Path) -> None:
    run = RunFolder(tmp_path)
    assert run.last_checkpoint() == 0
    for step, whole in ((3, True), (4, True), (5, False)):
        folder = run.checkpoints / f"global_step_{step}"
        folder.mkdir(parents=True)
        if whole:
            (folder / "data.pt").write_text("x")
    tracker = run.checkpoints / "latest_checkpointed_iteration.txt"
    tracker.write_text("3")
    assert run.last_checkpoint() == 3
    tracker.write_text("")
    assert run.last_checkpoint() == 4

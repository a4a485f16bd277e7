"""A checkpoint that cannot be written: the last good one stays, it is tried again, and that does not go on for ever."""

from __future__ import annotations

import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from lego_verl.monitor.run_folder import RunFolder
from lego_verl.workers.checkpoints import CheckpointError, Checkpoints

SIZE = 4 << 20


class Disk:
    """verl's saving onto a disk with so much room."""

    def __init__(self, run: RunFolder, monkeypatch: pytest.MonkeyPatch) -> None:
        self.run, self.full = run, False
        self.free = 1 << 40
        self.begun: list[int] = []
        monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=self.free, total=1 << 40))

    def save(self, step: int) -> None:
        self.begun.append(step)
        folder = self.run.checkpoints / f"global_step_{step}"
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.pt").write_bytes(bytes(SIZE // 2 if self.full else SIZE))
        tracker = self.run.checkpoints / "latest_checkpointed_iteration.txt"
        if self.full:
            tracker.write_text("")  # as open(…, "w") leaves it
            raise RuntimeError(
                "ray::save_checkpoint() [enforce fail at inline_container.cc:668] . unexpected pos 64 vs 0"
            )
        tracker.write_text(str(step))


@pytest.fixture
def told() -> list[tuple[int, str, str]]:
    return []


def made(run: RunFolder, told: list[Any], every: int = 2) -> Checkpoints:
    return Checkpoints(run, every, lambda *news: told.append(news), lambda step: told.append((step, "over", "")))


def test_the_last_good_one_stays_and_it_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: list[Any]
) -> None:
    run = RunFolder(tmp_path)
    disk, checkpoints = Disk(run, monkeypatch), made(run, told)
    checkpoints.save(2, lambda: disk.save(2), last=False)
    disk.full = True
    for step in (4, 5):
        checkpoints.save(step, lambda step=step: disk.save(step), last=False)  # type: ignore[misc]
        assert checkpoints.owed
        assert run.last_checkpoint() == 2
        assert not (run.checkpoints / f"global_step_{step}").exists(), "what is incomplete only takes room"
    assert (run.checkpoints / "global_step_2/model.pt").stat().st_size == SIZE
    assert len(told) == 1, "once"
    assert "the checkpoint of step 4 cannot be written" in told[0][1]
    assert "stops at step 6" in told[0][1]
    disk.full = False
    checkpoints.save(6, lambda: disk.save(6), last=False)
    assert told[1:] == [(6, "over", "")]
    assert not checkpoints.owed
    assert run.last_checkpoint() == 6


def test_nobody_trains_for_days_unsaved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: list[Any]) -> None:
    run = RunFolder(tmp_path)
    disk, checkpoints = Disk(run, monkeypatch), made(run, told)
    checkpoints.save(2, lambda: disk.save(2), last=False)
    disk.full = True
    checkpoints.save(4, lambda: disk.save(4), last=False)
    checkpoints.save(5, lambda: disk.save(5), last=False)
    with pytest.raises(CheckpointError) as error:
        checkpoints.save(6, lambda: disk.save(6), last=False)
    assert "the checkpoint of step 6 cannot be written, and none could since step 4" in str(error.value)
    assert "the last good one is of step 2. Make room in" in str(error.value)
    assert "\n" not in str(error.value)
    assert run.last_checkpoint() == 2


def test_the_last_step_has_no_later_chance(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: list[Any]) -> None:
    run = RunFolder(tmp_path)
    disk = Disk(run, monkeypatch)
    disk.full = True
    with pytest.raises(CheckpointError, match="there is none before it"):
        made(run, told).save(8, lambda: disk.save(8), last=True)


def test_one_that_will_not_fit_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, told: list[Any]) -> None:
    """One rank that fails while it writes would leave the others waiting for it."""
    run = RunFolder(tmp_path)
    disk, checkpoints = Disk(run, monkeypatch), made(run, told)
    checkpoints.save(2, lambda: disk.save(2), last=False)
    disk.free = SIZE
    checkpoints.save(4, lambda: disk.save(4), last=False)
    assert disk.begun == [2]
    assert "4 MiB are free, and the last one took 4 MiB" in told[0][1]
    # After a resume it is known how large the last one was.
    resumed = made(run, told)
    resumed.save(4, lambda: disk.save(4), last=False)
    assert disk.begun == [2]


def test_any_other_fault_ends_the_run_at_once(tmp_path: Path, told: list[Any]) -> None:
    def broken() -> None:
        raise RuntimeError("CUDA error: an illegal memory access was encountered")

    with pytest.raises(RuntimeError, match="illegal memory access"):
        made(RunFolder(tmp_path), told).save(2, broken, last=False)
    assert told == []

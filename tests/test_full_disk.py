"""A disk of the host that is full, or may not be written: one line that says so, whatever was running."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from small_disk import with_small_disk

RUN_ON_A_FULL_DISK = """
import sys
from pathlib import Path
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.training_process import TrainingProcess

run = RunFolder(Path(sys.argv[1]) / "run")
run.create()
run.recipe.write_text("[no, recipe]")
try:
    with (run.path / "all").open("wb") as file:
        while True:
            file.write(bytes(4096))
            file.flush()
except OSError:
    pass
with TrainingProcess(run, use_cpu=True) as process:
    while process.running():
        pass
print(process.error)
"""


def test_a_run_says_that_the_disk_is_full(tmp_path: Path) -> None:
    done = with_small_disk(tmp_path, "-m", "lego_verl.main", f"run.folder={tmp_path}", "run.name=full")
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith(f"lego_verl: No space left on device: {tmp_path}/full")


def test_a_trial_says_that_the_disk_is_full(tmp_path: Path) -> None:
    done = with_small_disk(tmp_path, "-m", "lego_verl.trial", f"out={tmp_path}/trial")
    assert done.returncode == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("lego_verl: No space left on device")


def test_a_training_process_that_can_leave_no_word_is_explained(tmp_path: Path) -> None:
    done = with_small_disk(tmp_path, "-c", RUN_ON_A_FULL_DISK, str(tmp_path))
    assert done.stdout.startswith(f"the disk that holds {tmp_path}/run is full; make room"), done.stderr


@pytest.mark.parametrize("path", ["/proc/runs", "/dev/null/runs"])
def test_a_folder_that_cannot_be_made_is_a_bad_recipe(path: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "lego_verl.main", f"run.folder={path}"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 2
    assert done.stderr.startswith(f"lego_verl: lego.run.folder={path} cannot be used: ")
    assert len(done.stderr.splitlines()) == 1

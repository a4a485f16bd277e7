"""The runs that can be graded again are made as for ``lego_verl.regrade``."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "regrade"))

from regrade_helpers import make_run, make_task

from lego_verl.monitor.run_folder import RunFolder
from lego_verl.tasks.task import Task


@pytest.fixture
def task(open_tmp: Path) -> Task:
    return make_task(open_tmp / "tasks/mend")


@pytest.fixture
def run(open_tmp: Path, task: Task) -> RunFolder:
    return make_run(open_tmp / "mine", task)

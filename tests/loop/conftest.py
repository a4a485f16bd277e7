"""The default recipe's run, which several tests look at: it takes minutes, and is made once."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from loop_helpers import MAIN, left_behind, temporary_files

pytest.importorskip("verl", reason="the extra cpu is not installed")


@pytest.fixture(scope="session")
def default_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs")
    before = temporary_files()
    arguments = [*MAIN, f"run.folder={folder}", "run.name=default"]
    started = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    told, _ = started.communicate()
    print(told)
    assert started.returncode == 0, told
    assert left_behind("default", started.pid) == []
    mine = f"lego_verl-{started.pid}-"
    assert not [name for name in temporary_files() - before if name.startswith(("ckpt_", mine))]
    return folder / "default"

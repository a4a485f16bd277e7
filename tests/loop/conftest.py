"""The default recipe's run, which several tests look at: it takes minutes, and is made once.

While it trains, somebody watches it in a browser.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from debian_packages import NotInstalled, chromium_program
from loop_helpers import MAIN, left_behind, temporary_files

sys.path.insert(0, str(Path(__file__).parents[1] / "dashboard"))

from watching import Watched, watch

pytest.importorskip("verl", reason="the extra cpu is not installed")


@pytest.fixture(scope="session")
def watched_run(tmp_path_factory: pytest.TempPathFactory) -> Watched:
    folder = tmp_path_factory.mktemp("runs")
    try:
        chromium = chromium_program()
    except NotInstalled:
        if os.environ.get("CI"):
            raise
        chromium = None
    before = temporary_files()
    arguments = [*MAIN, f"run.folder={folder}", "run.name=default"]
    with (folder / "told").open("w") as told:
        started = subprocess.Popen(arguments, stdout=told, stderr=subprocess.STDOUT)
        watched = watch(folder / "default", started, chromium)
    print((folder / "told").read_text())
    assert started.wait() == 0, (folder / "told").read_text()
    assert left_behind("default", started.pid) == []
    mine = f"lego_verl-{started.pid}-"
    assert not [name for name in temporary_files() - before if name.startswith(("ckpt_", mine))]
    return watched


@pytest.fixture(scope="session")
def default_run(watched_run: Watched) -> Path:
    return watched_run.run

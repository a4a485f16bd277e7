"""A run to report of."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from report_run import report_run

from lego_verl.monitor.run_folder import RunFolder


@pytest.fixture(scope="session")
def reported(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run with a hostile trial."""
    return report_run(tmp_path_factory.mktemp("runs") / "a run")

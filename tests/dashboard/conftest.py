"""A small run through the real store, and a dashboard over it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "monitor"))

from dashboard_run import dashboard_run
from dashboard_server import Served, wait_until

from lego_verl.monitor.run_folder import RunFolder


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> RunFolder:
    """A run of four steps of two harnesses, with held-out trials, an alert, and one step under way."""
    return dashboard_run(tmp_path_factory.mktemp("runs") / "demo run")


@pytest.fixture(scope="session")
def client(run: RunFolder) -> Any:
    """Asks a dashboard of the run, without a server."""
    from fastapi.testclient import TestClient

    from lego_verl.dashboard.app import create_app
    from lego_verl.dashboard.runs import Runs

    asks = TestClient(create_app(Runs([run.path])), base_url="http://127.0.0.1:8420")
    wait_until(lambda: asks.get("/api/runs").json()["runs"][0]["store"]["state"] == "ready")
    return asks


@pytest.fixture(scope="module")
def served(run: RunFolder) -> Iterator[str]:
    """The address of a dashboard of the run."""
    with Served([run.path]) as server:
        yield server.url

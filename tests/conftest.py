"""What all tests share."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from debian_packages import NotInstalled, chromium_program
from docker_daemon import docker_url

_WHERE_ASKED_FOR = {"harness_live": "installs a large harness", "algorithms": "trains with each for minutes"}


def pytest_configure() -> None:
    """Take SIGINT as usual: who is started in the background of a script inherits that it is ignored, and so would
    every process that a test starts and interrupts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """What takes long runs where its marker is asked for."""
    for item in items:
        for marker, why in _WHERE_ASKED_FOR.items():
            if item.get_closest_marker(marker) and marker not in (config.option.markexpr or ""):
                item.add_marker(pytest.mark.skip(reason=f"{why}; to run it: pytest -m {marker}"))


@pytest.fixture(scope="session")
def daemon() -> Iterator[str]:
    """The address of a docker daemon: one that is there, or one of the tests' own."""
    with docker_url() as url:
        yield url


@pytest.fixture(scope="session")
def chromium() -> str:
    """Debian's Chromium. Without one a test is skipped, and says why; in CI it fails."""
    try:
        return chromium_program()
    except NotInstalled as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(f"no browser to look at a page with: {error}")


@pytest.fixture(scope="module")
def browser(chromium: str) -> Iterator[Any]:
    """One for a module: playwright's loop must be gone before others run theirs."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield found
        found.close()


@pytest.fixture(scope="session")
def made_up(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for PYTHONPATH in which the package of a made-up harness is installed (tests/data/made_up_harness)."""
    scratch = tmp_path_factory.mktemp("made-up")
    # A build leaves its traces in its source.
    shutil.copytree(Path(__file__).parent / "data/made_up_harness", scratch / "source")
    offline = ("--no-deps", "--no-build-isolation", "--no-index", "--disable-pip-version-check", "--quiet")
    install = [sys.executable, "-m", "pip", "install", *offline, "--target", scratch / "target", scratch / "source"]
    subprocess.run(install, check=True)
    return scratch / "target"


@pytest.fixture
def open_tmp() -> Iterator[Path]:
    """A temporary folder that other users may enter: tests are mounted from it. (pytest's own is private.)"""
    folder = Path(tempfile.mkdtemp(prefix="lego-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)

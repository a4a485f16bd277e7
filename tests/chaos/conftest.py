"""What the chaos tests stand on: the helpers of the trials' tests, and a daemon that may be killed."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from docker_daemon import DockerDaemon

sys.path.insert(0, str(Path(__file__).parents[1] / "trial"))


@pytest.fixture(scope="module")
def own() -> Iterator[DockerDaemon]:
    """A daemon that may be killed."""
    daemon = DockerDaemon()
    try:
        daemon.start()
        yield daemon
    finally:
        daemon.close()
    assert processes_of(daemon) == []


def processes_of(daemon: DockerDaemon) -> list[str]:
    """What still runs of a daemon: itself, its containerd, or the shims of containers."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
            if str(daemon.folder) in words:
                found.append(words)
    return found

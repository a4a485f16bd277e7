"""What stands where only we may walk can be mounted all the same."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from sandbox.local import LocalBackend
from sandbox.sandbox import Image, Mount, SandboxSpec


async def test_a_folder_under_a_private_one_is_seen_inside_and_can_not_be_written(tmp_path: Path) -> None:
    private = tmp_path / "private"
    (private / "tests" / "deep").mkdir(parents=True)
    (private / "tests" / "test.sh").write_text("echo hello\n")
    (private / "tests" / "deep" / "secret.txt").write_text("42")
    (private / "tests" / "deep" / "secret.txt").chmod(0o600)
    private.chmod(0o700)
    backend = LocalBackend()
    spec = SandboxSpec("staging", "one", Image(workdir="/"), mounts=[Mount(private / "tests", "/tests")])
    sandbox = await backend.start(spec)
    try:
        script = "sh /tests/test.sh; cat /tests/deep/secret.txt; touch /tests/x 2>/dev/null || echo read-only"
        seen = await sandbox.exec(["sh", "-c", script], deadline=20)
    finally:
        await sandbox.close()
        await backend.reap("staging")
    assert seen.output.split() == ([b"hello", b"42read-only"])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root runs sandboxes as somebody else")
async def test_a_folder_that_can_be_reached_is_mounted_as_it_is() -> None:
    backend = LocalBackend()
    mounts = (Mount(Path("/usr/share"), "/share"),)
    assert backend._staging.reachable(mounts, lambda: Path("/nowhere")) == mounts

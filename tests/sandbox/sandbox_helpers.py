"""What the tests of sandboxes share, beside the fixtures."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path

from sandbox.local import LocalSandbox

Start = Callable[..., Awaitable[LocalSandbox]]


def git(folder: Path, *arguments: str, stdin: bytes = b"") -> str:
    """git of the host, with an identity and nobody's configuration."""
    environment = {
        **{key: value for key, value in os.environ.items() if not key.startswith("GIT_")},
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_NOSYSTEM": "1",
        **{f"GIT_{who}_{what}": "someone@localhost" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")},
    }
    done = subprocess.run(
        ["git", *arguments], cwd=folder, env=environment, input=stdin, capture_output=True, check=True
    )
    return done.stdout.decode(errors="replace").strip()


async def output(sandbox: LocalSandbox, script: str, *, deadline: float = 30.0) -> str:
    """What a shell script prints inside, stripped."""
    done = await sandbox.exec(["bash", "-c", script], deadline=deadline)
    assert not done.timed_out
    return done.output.decode(errors="replace").strip()

"""The verdict: the agent's patch, on a fresh copy of the base, judged by hidden tests.

Nothing that ran for the agent is here: a new sandbox, the base tree, the patch as data, and only then
the tests, as a read-only folder. The convention is Harbor's: ``bash /tests/test.sh`` in the workdir
writes ``/logs/verifier/reward.txt`` (a number) or ``reward.json``.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from sandbox.patch import PatchError, apply_patch
from sandbox.sandbox import Backend, Image, Limits, Mount, Sandbox, SandboxError, SandboxLost, SandboxSpec

Status = Literal["graded", "patch_failed", "failed", "timeout", "tampered"]
_TESTS = "/tests"
_REWARDS = ("/logs/verifier/reward.txt", "/logs/verifier/reward.json")

_PREPARE = r"""
set -eu
cd "$1"; shift
if [ $# -gt 0 ]; then
    git="git -c core.hooksPath=/dev/null -c core.fsmonitor=false"
    for path in "$@"; do
        rm -rf -- "./$path"
        if [ -n "$($git ls-tree HEAD -- "$path")" ]; then $git checkout -q HEAD -- "$path"; fi
    done
fi
rm -rf /logs
mkdir -p /logs/verifier /logs/agent /logs/artifacts
"""
_KIND = 'for path in "$@"; do [ ! -e "$path" ] && [ ! -L "$path" ] || stat -c "%F" "$path"; done'


@dataclass(frozen=True)
class Verdict:
    """How a patch was judged. ``reward`` is None where there is no judgement."""

    reward: float | None
    status: Status
    output: str
    """What the verifier printed, or why there is no verdict."""
    seconds: float


async def grade(
    backend: Backend,
    image: Image,
    patch: bytes,
    tests_folder: Path,
    *,
    deadline: float,
    limits: Limits,
    run: str,
    trial: str,
    restore: Sequence[str] = (),
) -> Verdict:
    """Judge a patch in a fresh sandbox.

    ``deadline``: seconds of wall time for the verifier alone. ``restore``: paths of the repository that
    the tests own; whatever the patch did to them is undone. An empty patch is judged like any other. A
    patch that does not apply is a verdict of 0. ``SandboxError`` and its kinds mean that the machine, not
    the patch, failed.
    """
    began = time.monotonic()
    _check_tests(tests_folder)

    def verdict(status: Status, reward: float | None, output: str) -> Verdict:
        return Verdict(reward, status, output, time.monotonic() - began)

    spec = SandboxSpec(run, f"{trial}-grade", image, mounts=[Mount(tests_folder, _TESTS)], limits=limits)
    sandbox = await backend.start(spec)
    try:
        try:
            await apply_patch(sandbox, patch)
        except PatchError as error:
            return verdict("patch_failed", 0.0, str(error))
        prepared = await sandbox.exec(
            ["bash", "-c", _PREPARE, "prepare", image.workdir, *restore], deadline=60, cwd="/"
        )
        if prepared.exit_code != 0:
            raise SandboxError(f"trial {trial}: the grading could not be prepared: {prepared.output[-300:]!r}")
        ran = await sandbox.exec(["bash", f"{_TESTS}/test.sh"], deadline=deadline)
        # `exec` returns when every process of the verifier is gone: nothing can still write a reward.
        output = ran.output.decode(errors="replace")
        if ran.timed_out:
            return verdict("timeout", None, f"{output}\n[no verdict within {deadline:g} s]")
        if ran.out_of_memory:
            return verdict("failed", None, f"{output}\n[over {limits.memory_mb} MiB of memory]")
        kinds = await sandbox.exec(["sh", "-c", _KIND, "kind", *_REWARDS], deadline=60, cwd="/")
        if any(kind not in (b"regular file", b"regular empty file") for kind in kinds.output.splitlines()):
            return verdict("tampered", 0.0, f"{output}\n[the reward is not an ordinary file]")
        reward = await _read_reward(sandbox)
        if isinstance(reward, str):
            return verdict("failed", None, f"{output}\n[exit {ran.exit_code}; {reward}]")
        return verdict("graded", reward, output)
    finally:
        await sandbox.close()


def _check_tests(folder: Path) -> None:
    script = folder / "test.sh"
    if not script.is_file():
        raise SandboxError(f"{script} does not exist: a task's tests folder has a test.sh")
    for path in [folder, *folder.rglob("*")]:
        need = 0o005 if path.is_dir() else 0o004
        if not path.is_symlink() and path.stat().st_mode & need != need:
            raise SandboxError(f"{path} is not readable for the sandbox's user: chmod -R a+rX {folder}")


async def _read_reward(sandbox: Sandbox) -> float | str:
    """The number; or why there is none."""
    for path in _REWARDS:
        try:
            text = (await sandbox.get(path, limit=1 << 20)).decode(errors="replace").strip()
        except FileNotFoundError:
            continue
        except SandboxLost:
            raise
        except SandboxError as error:  # not a file to be read, or far too large: the verifier's doing
            return f"{error}: not a reward"
        try:
            value = json.loads(text)
        except ValueError:
            return f"{path} holds {text[:80]!r}, not a reward"
        if isinstance(value, dict):
            value = value.get("reward", next(iter(value.values())) if len(value) == 1 else None)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return f"{path} holds {text[:80]!r}, not a reward"
        return float(value)
    return f"the verifier wrote neither {_REWARDS[0]} nor reward.json"

"""What the machine did while a patch was taken or applied is not held against the patch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from sandbox.patch import Baseline, PatchError, apply_patch, take_patch
from sandbox.sandbox import ExecResult, Image, Sandbox, SandboxError, SandboxSpec

DONE = ExecResult(exit_code=0, output=b"", dropped_bytes=0, timed_out=False, out_of_memory=False, seconds=1.0)
LATE = replace(DONE, exit_code=None, timed_out=True)
FULL_MEMORY = replace(DONE, exit_code=None, out_of_memory=True)
UNFIT = replace(DONE, exit_code=1, output=b"error: patch failed: answer.txt:1\n")


class Answering:
    """A sandbox in which every command ends in the same way."""

    spec = SandboxSpec("run", "it", Image())

    def __init__(self, result: ExecResult) -> None:
        self.result = result

    async def exec(self, *_: Any, **__: Any) -> ExecResult:
        return self.result

    async def disk_full(self) -> bool:
        return False


def answering(result: ExecResult) -> Sandbox:
    return Answering(result)  # type: ignore[return-value]


@pytest.mark.parametrize(
    ("result", "error", "says"),
    [
        (LATE, SandboxError, "could not be applied: out of time"),
        (FULL_MEMORY, SandboxError, "could not be applied: out of memory"),
        (UNFIT, PatchError, "does not apply: error: patch failed"),
    ],
)
async def test_applying(result: ExecResult, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        await apply_patch(answering(result), b"a patch")


@pytest.mark.parametrize(
    ("result", "error", "says"),
    [(LATE, PatchError, "too much was left behind"), (FULL_MEMORY, SandboxError, "out of memory")],
)
async def test_taking(result: ExecResult, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        await take_patch(answering(result), Baseline("tree", b""))

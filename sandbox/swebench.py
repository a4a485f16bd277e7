"""Asks swebench, in a process of its own, what a report of tests says (see ``swebench_judge``)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from sandbox.report import Report
from sandbox.sandbox import SandboxError
from sandbox.swebench_judge import CPU_SECONDS, MISSING, UNKNOWN

MISSING_EXTRA = "tasks in SWE-bench's form need the extra swebench: pip install 'lego_verl[swebench]'"
_JUDGE = Path(__file__).with_name("swebench_judge.py")
_WALL_SECONDS = 20 * CPU_SECONDS
"""Of a machine that has nothing left for the judge; its own time is bounded by the processor's."""


@dataclass(frozen=True)
class Judged:
    """Tests that count, by how they went."""

    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Judgement:
    """What swebench says of a report, and what looks like an attack in it (see ``swebench_judge.judge``)."""

    resolved: bool = False
    valid: bool = False
    reported: int = 0
    fail_only: bool = False
    spoken: tuple[str, ...] = ()
    overturned: tuple[str, ...] = ()
    fail_to_pass: Judged = Judged()
    pass_to_pass: Judged = Judged()
    unreadable: str = ""
    """Why there is no word of swebench's: the report's own doing."""


def has_swebench() -> bool:
    """Whether the extra is installed."""
    return find_spec("swebench") is not None


async def ask_swebench(report: Report, output: str, exit_code: int | None) -> Judgement:
    """Judge what tests have printed.

    Raises:
        SandboxError: when swebench is missing, does not know the parser, or does not answer.
    """
    asked = {
        "repo": report.repo,
        "version": report.version,
        "parser": report.parser,
        "eval_type": report.eval_type,
        "FAIL_TO_PASS": report.fail_to_pass,
        "PASS_TO_PASS": report.pass_to_pass,
        "output": output,
        "exit_code": exit_code,
    }
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", str(_JUDGE)),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    try:
        async with asyncio.timeout(_WALL_SECONDS):
            said, errors = await process.communicate(json.dumps(asked).encode())
    except TimeoutError:
        raise SandboxError(f"swebench did not judge a report within {_WALL_SECONDS} s: the machine is busy") from None
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                process.kill()
            await process.wait()
    last = (errors.decode(errors="replace").strip().splitlines() or [""])[-1]
    if process.returncode == MISSING:
        raise SandboxError(f"{MISSING_EXTRA} ({last})")
    if process.returncode == UNKNOWN:
        raise SandboxError(last)
    if process.returncode == -signal.SIGXCPU or last == "MemoryError":
        return Judgement(unreadable=f"it takes swebench over {CPU_SECONDS} s, or more memory than it has")
    if process.returncode != 0:
        raise SandboxError(f"swebench failed over a report: {last}")
    return _judgement(json.loads(said))


def _judgement(said: dict[str, Any]) -> Judgement:
    fail_to_pass, pass_to_pass = (
        Judged(tuple(said[key]["success"]), tuple(said[key]["failure"])) for key in ("FAIL_TO_PASS", "PASS_TO_PASS")
    )
    return Judgement(
        resolved=said["resolved"],
        valid=said["valid"],
        reported=said["reported"],
        fail_only=said["fail_only"],
        spoken=tuple(said["spoken"]),
        overturned=tuple(said["overturned"]),
        fail_to_pass=fail_to_pass,
        pass_to_pass=pass_to_pass,
    )

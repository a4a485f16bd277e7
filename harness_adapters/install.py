"""Installing into a runtime: pip for the packages, one run of the interpreter for the bytecode."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from harness_adapters.adapter import HarnessError, Runtime
from harness_adapters.interpreter import Interpreter

INSTALL_SECONDS = 1800.0
WARM_SECONDS = 300.0
Report = Callable[[str], None]


class RuntimeBuildError(HarnessError):
    """A harness that cannot be installed; the message says why and names the log."""


async def install(runtime: Runtime, interpreter: Interpreter, site: Path, log: Path, report: Report | None) -> None:
    """Put the packages into ``site``. ``RuntimeBuildError`` with pip's reason, in one line."""
    command = [sys.executable, "-m", "pip"]
    if interpreter.version != f"{sys.version_info.major}.{sys.version_info.minor}":
        command += ["--python", str(interpreter.here)]
    command += ["install", "--target", str(site), "--no-compile", "--no-input", "--progress-bar", "off"]
    command += ["--disable-pip-version-check", "--no-warn-script-location", "--root-user-action", "ignore"]
    if not runtime.dependencies:
        command.append("--no-deps")
    code, said = await run_logged([*command, *runtime.packages], INSTALL_SECONDS, log, report=report)
    if code != 0:
        reason = next((line for line in reversed(said) if line.startswith("ERROR")), said[-1] if said else "no output")
        raise RuntimeBuildError(
            f"harness runtime {runtime.name} cannot be installed: {reason.removeprefix('ERROR: ')} "
            f"(pip's output: {log})"
        )


async def warm(runtime: Runtime, python: str, part: Path, log: Path) -> None:
    """Import once what a start imports, so that only that is compiled. ``RuntimeBuildError`` when it does not start."""
    with tempfile.TemporaryDirectory(prefix="lego-warm-") as home:
        start = f"import sys\nsys.path[:0] = [{str(part / 'site')!r}, {str(part)!r}]\n{runtime.warm}\n"
        environment = {"HOME": home, "PATH": os.defpath, "LANG": "C.UTF-8"}
        code, said = await run_logged(
            [python, "-S", "-E", "-c", start], WARM_SECONDS, log, environment=environment, cwd=home
        )
    if code != 0:
        raise RuntimeBuildError(
            f"harness runtime {runtime.name} is installed but does not start: {said[-1] if said else f'exit {code}'} "
            f"(its output: {log})"
        )


async def run_logged(
    command: Sequence[str],
    seconds: float,
    log: Path,
    *,
    environment: dict[str, str] | None = None,
    cwd: str | None = None,
    report: Report | None = None,
) -> tuple[int, list[str]]:
    """Run a command; return its exit code and output lines, which are also appended to ``log``."""
    lines: list[str] = []
    process = await asyncio.create_subprocess_exec(
        *command,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
        env=environment,
        cwd=cwd,
        umask=0o022,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        with log.open("a") as file:
            print(time.strftime("%Y-%m-%d %H:%M:%S"), *command, file=file, flush=True)
            async with asyncio.timeout(seconds):
                while raw := await process.stdout.readline():
                    line = raw.decode(errors="replace").rstrip()
                    print(line, file=file, flush=True)
                    lines.append(line)
                    if report and line.startswith(("Collecting ", "Installing collected")):
                        report(line.split(" (from")[0][:100])
                return await process.wait(), lines
    except TimeoutError:
        return -1, [*lines, f"ERROR: it was not done within {seconds:g} s"]
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, 9)
            await process.wait()

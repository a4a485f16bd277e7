"""Runtimes: a harness and what it needs, installed once and then only mounted.

``<cache>/runtimes/<name>-<digest>/`` holds ``site/`` (the packages), the runtime's own files, perhaps an
interpreter under ``python/``, and ``runtime.json``, which says what is in it. The digest is over all that
was asked for, so a runtime never changes: it is built beside its place, and renamed when it is complete.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shutil
import tempfile
import time
from collections.abc import AsyncIterator
from dataclasses import asdict, dataclass
from pathlib import Path

from harness_adapters.adapter import Runtime
from harness_adapters.install import Report, RuntimeBuildError, install, warm
from harness_adapters.interpreter import Interpreter, copy_interpreter, find_interpreter

MOUNTED_AT = "/opt/lego/harness"
"""Where a runtime is seen inside a sandbox."""
_FORMAT = 1


@dataclass(frozen=True)
class BuiltRuntime:
    """A runtime that is ready to be mounted, read-only, at ``MOUNTED_AT``."""

    folder: Path
    python: str
    """The interpreter that runs it, as seen inside."""
    digest: str


def cache_folder(given: str | Path | None = None) -> Path:
    """Where runtimes are kept: ``given``, $LEGO_VERL_CACHE, or a folder of this user's.

    root's is under /var, because sandboxes drop to a user who may not look into /root.
    """
    chosen = given or os.environ.get("LEGO_VERL_CACHE")
    if chosen:
        return Path(chosen).expanduser().resolve()
    return Path("/var/cache/lego_verl") if os.geteuid() == 0 else Path.home() / ".cache" / "lego_verl"


async def build_runtime(
    runtime: Runtime, cache: Path, *, share_usr: bool = True, report: Report | None = None
) -> BuiltRuntime:
    """Install a runtime into the cache, once; return at once when it is there.

    Processes that ask at the same time wait for the one that builds. ``report`` is told what is being
    done. ``share_usr``: sandboxes see the host's /usr, so an interpreter there can be used.

    Raises:
        RuntimeBuildError: with pip's reason and the log's path. Nothing half-built stays.
        HarnessError: when no interpreter fits.
    """
    interpreter = find_interpreter(runtime.python, share_usr=share_usr)
    digest = _digest(runtime, interpreter)
    home = cache / "runtimes"
    folder = home / f"{runtime.name}-{digest}"
    if not folder.exists():
        try:
            home.mkdir(mode=0o755, parents=True, exist_ok=True)
            (cache / "logs").mkdir(mode=0o755, exist_ok=True)
        except OSError as error:
            raise RuntimeBuildError(f"the cache {cache} cannot be written: {error.strerror}") from error
        async with _lock(home / f"{folder.name}.lock", report):
            if not folder.exists():
                await _build(runtime, interpreter, folder, cache / "logs" / f"{folder.name}.log", report)
    return BuiltRuntime(folder, json.loads((folder / "runtime.json").read_text())["python"], digest)


def _digest(runtime: Runtime, interpreter: Interpreter) -> str:
    asked = {
        "format": _FORMAT,
        "runtime": asdict(runtime),
        "interpreter": [interpreter.version, str(interpreter.shared), platform.machine()],
    }
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()[:16]


@contextlib.asynccontextmanager
async def _lock(path: Path, report: Report | None) -> AsyncIterator[None]:
    """Hold a file's lock. The kernel gives it back when its process ends, however it ends."""
    waited = False
    with path.open("w") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError:
                if not waited and report:
                    report("another process is installing it")
                waited = True
                await asyncio.sleep(0.1)
        yield


async def _build(runtime: Runtime, interpreter: Interpreter, folder: Path, log: Path, report: Report | None) -> None:
    for left in folder.parent.glob(f".{folder.name}-*"):  # of a builder that was killed: we hold its lock
        shutil.rmtree(left, ignore_errors=True)
    began = time.monotonic()
    part = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    part.chmod(0o755)
    try:
        if interpreter.shared is not None:
            host = inside = str(interpreter.shared)
        else:
            if report:
                report("copying the interpreter")
            copied = await asyncio.to_thread(copy_interpreter, part / "python")
            host, inside = str(copied), f"{MOUNTED_AT}/{copied.relative_to(part)}"
        await install(runtime, interpreter, part / "site", log, report)
        for name, text in runtime.files.items():
            path = part / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        if runtime.warm:
            if report:
                report("compiling")
            await warm(runtime, host, part, log)
        _describe(runtime, interpreter, inside, part, time.monotonic() - began)
        _make_readable(part)
        part.rename(folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


def _describe(runtime: Runtime, interpreter: Interpreter, python: str, part: Path, seconds: float) -> None:
    installed = sorted(path.name.removesuffix(".dist-info") for path in (part / "site").glob("*.dist-info"))
    description = {
        "name": runtime.name,
        "python": python,
        "python_version": interpreter.version,
        "asked": list(runtime.packages),
        "installed": installed,
        "built": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        "seconds": round(seconds, 1),
    }
    (part / "runtime.json").write_text(json.dumps(description, indent=1) + "\n")


def _make_readable(part: Path) -> None:
    """For a sandbox's unprivileged user. Links are left alone: what they lead to is here or is not ours."""
    for folder, _, files in os.walk(part):
        os.chmod(folder, 0o755)
        for name in files:
            path = Path(folder, name)
            if not path.is_symlink():
                mode = path.stat().st_mode
                path.chmod(0o755 if mode & 0o100 else 0o644)

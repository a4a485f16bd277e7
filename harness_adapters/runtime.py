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
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import IO

from harness_adapters.adapter import Runtime
from harness_adapters.install import Report, RuntimeBuildError, install, warm
from harness_adapters.install_npm import find_node, install_npm
from harness_adapters.interpreter import Interpreter, copy_interpreter, find_interpreter

MOUNTED_AT = "/opt/lego/harness"
"""Where a runtime is seen inside a sandbox."""
_FORMAT = 2


@dataclass(frozen=True)
class BuiltRuntime:
    """A runtime that is ready to be mounted, read-only, at ``MOUNTED_AT``."""

    folder: Path
    python: str
    """The interpreter that runs it, as seen inside; empty for a runtime that needs none."""
    digest: str
    use: IO[bytes] | None = field(default=None, compare=False, repr=False)
    """Its lock, shared with all others who use it: while it is held, nobody removes the folder."""


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
    interpreter = _interpreter_of(runtime, share_usr)
    if runtime.node is not None:
        find_node(runtime.node)  # what is missing is said at once
    digest = _digest(runtime, interpreter)
    home = cache / "runtimes"
    folder = home / f"{runtime.name}-{digest}"
    use: IO[bytes] | None = None
    while use is None:
        if not folder.exists():
            try:
                home.mkdir(mode=0o755, parents=True, exist_ok=True)
                (cache / "logs").mkdir(mode=0o755, exist_ok=True)
            except OSError as error:
                raise RuntimeBuildError(f"the cache {cache} cannot be written: {error.strerror}") from error
            async with _lock(lock_of(folder), report):
                if not folder.exists():
                    await _build(runtime, interpreter, folder, cache / "logs" / f"{folder.name}.log", report)
        use = await _use(folder)
    description = folder / "runtime.json"
    with contextlib.suppress(OSError):  # a cache of somebody else's
        os.utime(description)  # when it was last used: who clears up goes by it
    return BuiltRuntime(folder, json.loads(description.read_text())["python"], digest, use)


def runtime_folder(runtime: Runtime, cache: Path, *, share_usr: bool = True) -> Path:
    """Where ``build_runtime`` keeps it, built or not. ``HarnessError`` when no interpreter fits."""
    return cache / "runtimes" / f"{runtime.name}-{_digest(runtime, _interpreter_of(runtime, share_usr))}"


def lock_of(folder: Path) -> Path:
    """The lock of a runtime's folder, held by who builds or removes it."""
    return folder.with_name(f"{folder.name}.lock")


def use_of(folder: Path) -> Path:
    """The lock of which all who use a runtime hold a share, and who removes it the whole.

    Another one than that of building: a runtime whose folder somebody has deleted is built again at once, although
    there are processes that go on using what was there.
    """
    return folder.with_name(f"{folder.name}.use")


async def _use(folder: Path) -> IO[bytes] | None:
    """Take a share of the lock of use; None when the folder was removed before that."""
    lock = use_of(folder)
    if not lock.exists():
        lock.touch()
    file = lock.open("rb")
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            break
        except BlockingIOError:
            await asyncio.sleep(0.1)
    if folder.exists():
        return file
    file.close()
    return None


def _interpreter_of(runtime: Runtime, share_usr: bool) -> Interpreter | None:
    return None if runtime.python is None else find_interpreter(runtime.python, share_usr=share_usr)


def _digest(runtime: Runtime, interpreter: Interpreter | None) -> str:
    asked = {
        "format": _FORMAT,
        "runtime": asdict(runtime),
        "interpreter": None if interpreter is None else [interpreter.version, str(interpreter.shared)],
        "machine": platform.machine(),
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


async def _build(
    runtime: Runtime, interpreter: Interpreter | None, folder: Path, log: Path, report: Report | None
) -> None:
    for left in folder.parent.glob(f".{folder.name}-*"):  # of a builder that was killed: we hold its lock
        shutil.rmtree(left, ignore_errors=True)
    began = time.monotonic()
    part = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=folder.parent))
    part.chmod(0o755)
    try:
        host = inside = ""
        installed: list[str] = []
        if interpreter is not None:
            host, inside = await _interpreter(interpreter, part, report)
            if runtime.packages:
                await install(runtime, interpreter, part / "site", log, report)
            installed += sorted(path.name.removesuffix(".dist-info") for path in (part / "site").glob("*.dist-info"))
        if runtime.npm:
            installed += await install_npm(runtime, part, log, report)
        for name, text in runtime.files.items():
            path = part / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        if runtime.warm:
            if report:
                report("compiling")
            await warm(runtime, host, part, log)
        version = None if interpreter is None else interpreter.version
        description = {
            "name": runtime.name,
            "python": inside,
            "python_version": version,
            "asked": [*runtime.packages, *runtime.npm],
            "installed": installed,
            "built": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
            "seconds": round(time.monotonic() - began, 1),
        }
        (part / "runtime.json").write_text(json.dumps(description, indent=1) + "\n")
        _make_readable(part)
        part.rename(folder)
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise


async def _interpreter(interpreter: Interpreter, part: Path, report: Report | None) -> tuple[str, str]:
    """Where the runtime's interpreter is on this machine and inside; copied where it is not there anyway."""
    if interpreter.shared is not None:
        return str(interpreter.shared), str(interpreter.shared)
    if report:
        report("copying the interpreter")
    copied = await asyncio.to_thread(copy_interpreter, part / "python", interpreter.here)
    return str(copied), f"{MOUNTED_AT}/{copied.relative_to(part)}"


def _make_readable(part: Path) -> None:
    """For a sandbox's unprivileged user. Links are left alone: what they lead to is here or is not ours."""
    for folder, _, files in os.walk(part):
        os.chmod(folder, 0o755)
        for name in files:
            path = Path(folder, name)
            if not path.is_symlink():
                mode = path.stat().st_mode
                path.chmod(0o755 if mode & 0o100 else 0o644)

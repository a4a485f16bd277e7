"""The interpreter of a runtime: one that the sandbox has anyway, or a copy that the runtime brings along."""

from __future__ import annotations

import os
import shutil
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

from harness_adapters.adapter import HarnessError

_LEFT_OUT = (
    "site-packages",
    "dist-packages",
    "test",
    "tests",
    "idlelib",
    "tkinter",
    "turtledemo",
    "ensurepip",
    "lib2to3",
    "config-*",
)
_WRAPPER = """\
#!/bin/sh
# The library path is for this interpreter alone: the launcher gives the outer one back to what it starts.
here=${{0%/*}}
LEGO_OUTER_LD_LIBRARY_PATH=$LD_LIBRARY_PATH LD_LIBRARY_PATH=$here/../lib exec "$here/{name}" "$@"
"""


@dataclass(frozen=True)
class Interpreter:
    """Which interpreter runs a runtime, and which one installs into it."""

    version: str
    """Major and minor."""
    shared: Path | None
    """The interpreter under /usr, which is the same inside; None: the running one is copied."""


def find_interpreter(wanted: str, *, share_usr: bool) -> Interpreter:
    """An interpreter for a runtime that prefers Python ``wanted`` and runs on newer ones.

    ``share_usr``: the sandbox sees the host's /usr.

    Raises:
        HarnessError: when there is none.
    """
    running = f"{sys.version_info.major}.{sys.version_info.minor}"
    new_enough = _number(running) >= _number(wanted)
    if share_usr:
        for version in (wanted, running) if new_enough else (wanted,):
            for folder in ("/usr/bin", "/usr/local/bin"):
                path = Path(folder, f"python{version}")
                if os.access(path, os.X_OK) and path.resolve().is_relative_to("/usr"):
                    return Interpreter(version, path)
    if not new_enough:
        raise HarnessError(
            f"this harness needs Python {wanted} or newer: there is none under /usr, and this one is {running}"
        )
    return Interpreter(running, None)


def copy_interpreter(target: Path) -> Path:
    """Copy the running installation, without packages and tests, to ``target``; return its executable there.

    Works from wherever ``target`` is moved to or mounted at.
    """
    prefix, name = Path(sys.base_prefix), f"python{sys.version_info.major}.{sys.version_info.minor}"
    library = Path("lib", name)
    source = prefix / library
    if not (source / "os.py").exists():
        source = Path(sysconfig.get_paths(vars={"base": str(prefix), "installed_base": str(prefix)})["stdlib"])
    shutil.copytree(source, target / library, ignore=shutil.ignore_patterns(*_LEFT_OUT), symlinks=False)
    (target / "bin").mkdir(parents=True)
    executable = target / "bin" / name
    shutil.copy2(_executable(prefix, name), executable)
    if not sysconfig.get_config_var("Py_ENABLE_SHARED"):
        return executable
    folder = Path(sysconfig.get_config_var("LIBDIR") or prefix / "lib")
    for shared in [*folder.glob(f"lib{name}*.so*"), *folder.glob("libpython3.so")]:
        shutil.copy2(shared, target / "lib" / shared.name)
    wrapper = target / "bin" / "python"
    wrapper.write_text(_WRAPPER.format(name=name))
    wrapper.chmod(0o755)
    return wrapper


def _executable(prefix: Path, name: str) -> Path:
    for path in (prefix / "bin" / name, Path(getattr(sys, "_base_executable", sys.executable))):
        if path.exists():
            return path.resolve()
    raise HarnessError(f"the interpreter of {prefix} cannot be found, so it cannot be copied into a runtime")


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))

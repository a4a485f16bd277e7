"""The interpreter of a runtime: one that the sandbox has anyway, or a copy that the runtime brings along."""

from __future__ import annotations

import glob
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
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
_ASK = """
import json, sys, sysconfig
prefix = sys.base_prefix
print(json.dumps({
    "version": "%d.%d" % sys.version_info[:2],
    "executable": getattr(sys, "_base_executable", sys.executable),
    "prefix": prefix,
    "stdlib": sysconfig.get_paths(vars={"base": prefix, "installed_base": prefix})["stdlib"],
    "shared": bool(sysconfig.get_config_var("Py_ENABLE_SHARED")),
    "libraries": sysconfig.get_config_var("LIBDIR"),
}))
"""
_OF_LIBC = ("libc.", "libm.", "libdl.", "libpthread.", "librt.", "libutil.", "libresolv.", "libnsl.", "ld-linux")
"""Parts of the C library: those have to be the image's own, all of them."""
_OF_PACKAGES = ("libstdc++.so.6", "libgcc_s.so.1")
_KEPT_BY_TOOLS = ("~/.pyenv/versions/*/bin", "~/.local/share/uv/python/*/bin")
"""Where version managers keep interpreters that are not on the PATH."""


@dataclass(frozen=True)
class Interpreter:
    """Which interpreter runs a runtime, and which one installs into it."""

    version: str
    """Major and minor."""
    shared: Path | None
    """The interpreter under /usr, which is the same inside; None: it is copied."""
    here: Path
    """Where it is on this machine."""


def find_interpreter(wanted: str, *, share_usr: bool) -> Interpreter:
    """An interpreter for a runtime that prefers Python ``wanted`` and runs on newer ones.

    One under /usr, the running one, or else one that is on the PATH or that pyenv or uv keep.
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
                    return Interpreter(version, path, path)
    if new_enough:
        return Interpreter(running, None, Path(sys.executable))
    for path in _elsewhere(wanted):
        return Interpreter(wanted, None, path)
    raise HarnessError(
        f"this harness needs Python {wanted} or newer: there is no python{wanted} under /usr, on the PATH, of pyenv or "
        f"of uv, and this one is {running}"
    )


def copy_interpreter(target: Path, executable: Path | None = None) -> Path:
    """Copy an installation (the running one), without packages and tests, to ``target``; return its executable there.

    Works from wherever ``target`` is moved to or mounted at.
    """
    about = _asked(executable or Path(sys.executable))
    if about is None:
        raise HarnessError(f"the interpreter {executable or sys.executable} does not run, so it cannot be copied")
    prefix, name = Path(about["prefix"]), f"python{about['version']}"
    library = Path("lib", name)
    source = prefix / library
    if not (source / "os.py").exists():
        source = Path(about["stdlib"])
    shutil.copytree(source, target / library, ignore=shutil.ignore_patterns(*_LEFT_OUT), symlinks=False)
    (target / "bin").mkdir(parents=True)
    copied = target / "bin" / name
    shutil.copy2(_executable(prefix / "bin" / name, Path(about["executable"])), copied)
    if not about["shared"]:
        return copied
    folder = Path(about["libraries"] or prefix / "lib")
    for shared in [*folder.glob(f"lib{name}*.so*"), *folder.glob("libpython3.so"), *_system_libraries(source)]:
        shutil.copy2(shared, target / "lib" / shared.name)
    wrapper = target / "bin" / "python"
    wrapper.write_text(_WRAPPER.format(name=name))
    wrapper.chmod(0o755)
    return wrapper


def _system_libraries(library: Path) -> list[Path]:
    """What the standard library's modules, and packages in C++, are linked with. An image may have none of it."""
    modules = [str(path) for path in library.glob("lib-dynload/*.so") if "tkinter" not in path.name]
    ldconfig = shutil.which("ldconfig", path=f"{os.defpath}:/sbin:/usr/sbin")
    linked = _linked(["ldd", *modules]) if modules else {}
    known = _linked([ldconfig, "-p"]) if ldconfig else {}
    names = {name for name in linked if not name.startswith(_OF_LIBC)} | set(_OF_PACKAGES)
    return [Path(found) for name in sorted(names) if (found := linked.get(name) or known.get(name))]


def _linked(command: list[str]) -> dict[str, str]:
    """Libraries by name, as ldd and ldconfig list them; none where the program is missing."""
    try:
        said = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60).stdout
    except (OSError, subprocess.TimeoutExpired):
        return {}
    found: dict[str, str] = {}
    for name, path in re.findall(r"^\s+(\S+) .*?=> (/\S+)", said, re.MULTILINE):
        found.setdefault(name, path)
    return found


def _executable(*candidates: Path) -> Path:
    for path in candidates:
        if path.exists():
            return path.resolve()
    raise HarnessError(f"the interpreter {candidates[-1]} cannot be found, so it cannot be copied into a runtime")


def _elsewhere(version: str) -> Iterator[Path]:
    """Interpreters of a version that run. A shim of pyenv's on the PATH may stand for one that is switched off."""
    folders = [*os.environ.get("PATH", "").split(os.pathsep)]
    for pattern in _KEPT_BY_TOOLS:
        folders += sorted(glob.glob(os.path.expanduser(pattern)), reverse=True)
    for folder in folders:
        path = Path(folder, f"python{version}")
        if folder and os.access(path, os.X_OK):
            about = _asked(path)
            if about is not None and about["version"] == version:
                yield Path(about["executable"])


def _asked(executable: Path) -> dict[str, str] | None:
    """What an interpreter says of itself; None when it does not run."""
    try:
        said = subprocess.run([str(executable), "-I", "-S", "-c", _ASK], capture_output=True, check=True, timeout=60)
    except (OSError, subprocess.SubprocessError):
        return None
    return dict(json.loads(said.stdout))


def _number(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split("."))

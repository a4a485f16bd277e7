"""Programs that tests need and pip does not have: Debian's, installed where they are missing (root only)."""

from __future__ import annotations

import os
import shutil
import subprocess

_PATH = ("/usr/sbin", "/usr/bin", "/sbin")
_LOCKED_SECONDS = 600
"""Waited for another apt: .ci/run begins to install while pip does."""


class NotInstalled(RuntimeError):
    """The program is not here, and cannot be installed; says why."""


def program(name: str, *packages: str) -> str:
    """The path of a program, of ``packages`` where it is missing.

    Raises:
        NotInstalled: where it cannot be had.
    """
    path = os.pathsep.join([os.environ.get("PATH", ""), *_PATH])
    if found := shutil.which(name, path=path):
        return found
    if os.geteuid() != 0:
        raise NotInstalled(f"{name} is not installed, and only root can install it")
    if shutil.which("apt-get") is None:
        raise NotInstalled(f"{name} is not installed, and there is no apt-get to install it with")
    apt = f"apt-get -qq -o DPkg::Lock::Timeout={_LOCKED_SECONDS}"
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    # The lists may be there though they cannot be renewed now; if they are not, the second command says so.
    subprocess.run(f"{apt} update".split(), env=environment, capture_output=True, check=False)
    command = f"{apt} install -y --no-install-recommends {' '.join(packages)}"
    done = subprocess.run(command.split(), env=environment, capture_output=True, check=False)
    if done.returncode != 0:
        raise NotInstalled(f"{command!r} failed: {done.stderr.decode(errors='replace').strip()[-200:]}")
    if found := shutil.which(name, path=path):
        return found
    raise NotInstalled(f"{' '.join(packages)}: installed, and there is no {name}")


def chromium_program() -> str:
    """Raises ``NotInstalled``, as ``program`` does."""
    return program("chromium", "chromium", "fonts-dejavu-core")

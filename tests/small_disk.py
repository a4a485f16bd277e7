"""A program that sees a small file system of its own, which can be filled."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from sandbox.tools import find_tools

FILL = """
def fill(folder):
    ballast = folder / "ballast"
    with ballast.open("wb", buffering=0) as file:
        try:
            while True:
                file.write(bytes(512))
        except OSError:
            return ballast
"""
"""Part of a program: ``fill(folder)`` takes what room there is, and returns the file to remove."""


def with_small_disk(folder: Path, *command: str, size: int = 1 << 17) -> subprocess.CompletedProcess[str]:
    """Run Python with these arguments, with a file system of ``size`` bytes at ``folder``."""
    tools = find_tools()
    libraries = {"LD_LIBRARY_PATH": str(tools.libraries)} if tools.libraries else {}
    bwrap = [str(tools.bwrap), "--dev-bind", "/", "/", "--size", str(size), "--tmpfs", str(folder)]
    environment = {**os.environ, **libraries}
    command = (*bwrap, sys.executable, *command)
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=environment, check=False)

"""Installing into a runtime what npm has: the packages, and this machine's node to run them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
from pathlib import Path

from harness_adapters.adapter import HarnessError, Runtime
from harness_adapters.install import INSTALL_SECONDS, Report, RuntimeBuildError, run_logged

FOLDER = "node"


def find_node(oldest: int) -> Path:
    """The node of this machine.

    Raises:
        HarnessError: when there is none, or an older one.
    """
    found = shutil.which("node")
    if found is None:
        raise HarnessError(f"this harness needs node {oldest} or newer, and there is no `node` on the PATH")
    said = subprocess.run([found, "--version"], capture_output=True, text=True, check=False).stdout
    version = re.match(r"v(\d+)\.", said)
    if version is None or int(version[1]) < oldest:
        raise HarnessError(f"this harness needs node {oldest} or newer, and {found} is {said.strip() or 'not running'}")
    return Path(found).resolve()


async def install_npm(runtime: Runtime, part: Path, log: Path, report: Report | None) -> list[str]:
    """Put ``runtime.npm`` and, where it is asked for, node below ``part``; return what was installed.

    Raises:
        RuntimeBuildError: with npm's reason, in one line.
        HarnessError: when npm or node is missing here.
    """
    npm = shutil.which("npm")
    if npm is None:
        raise HarnessError(f"harness runtime {runtime.name} is installed by npm, and there is no `npm` on the PATH")
    folder = part / FOLDER
    folder.mkdir()
    if report:
        report("npm install")
    command = [npm, "install", "--prefix", str(folder), "--no-audit", "--no-fund", "--no-progress", "--omit=dev"]
    code, said = await run_logged(
        [*command, *runtime.npm],
        INSTALL_SECONDS,
        log,
        environment={**os.environ, "npm_config_update_notifier": "false"},
        cwd=str(folder),
    )
    if code != 0:
        errors = [line for line in said if line.startswith(("npm error", "npm ERR!"))]
        reason = (errors or said or ["no output"])[0]
        raise RuntimeBuildError(f"harness runtime {runtime.name} cannot be installed: {reason} (npm's output: {log})")
    if runtime.node is not None:
        (folder / "bin").mkdir()
        await asyncio.to_thread(shutil.copy2, find_node(runtime.node), folder / "bin" / "node")
    listed = json.loads((folder / "node_modules" / ".package-lock.json").read_text())["packages"]
    return sorted(f"{name.removeprefix('node_modules/')}@{about['version']}" for name, about in listed.items())

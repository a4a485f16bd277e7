"""``python -m lego_verl.harnesses build|list|clean``: what is built, shown, removed, and what never is."""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Mapping, Sequence
from importlib.metadata import EntryPoint
from pathlib import Path
from typing import ClassVar

import pytest

from harness_adapters import registry
from harness_adapters.adapter import Ending, HarnessAdapter, HarnessContext, Runtime
from harness_adapters.kept import in_use, kept_runtimes, remove_runtime
from harness_adapters.runtime import build_runtime, lock_of, runtime_folder
from lego_verl.harnesses import wanted
from lego_verl.harnesses.__main__ import main

DAY = 86_400


class Small(HarnessAdapter):
    """A harness whose runtime is one text file."""

    name: ClassVar[str] = "small"
    end_status: ClassVar[int] = 401

    def __init__(self, *, version: str = "2") -> None:
        self._version = version

    @property
    def runtime(self) -> Runtime:
        return Runtime(name=f"small-{self._version}", python=None, files={"agent": "x" * 5000})

    def command(self, context: HarnessContext) -> Sequence[str]:
        return ["true"]

    def environment(self, context: HarnessContext) -> Mapping[str, str]:
        return {}

    def ending(self, exit_code: int | None, output: str) -> Ending:
        return "finished"


@pytest.fixture(autouse=True)
def only_small(monkeypatch: pytest.MonkeyPatch) -> None:
    """There is no harness but this one."""
    point = EntryPoint("small", f"{__name__}:Small", registry.ENTRY_POINTS)
    monkeypatch.setattr(registry, "entry_points", lambda *, group: [point])
    monkeypatch.setattr(registry, "_BUILT_IN", {})


def age(folder: Path, days: float) -> None:
    then = time.time() - days * DAY
    os.utime(folder / "runtime.json", (then, then))


async def built(cache: Path, version: str, days: float) -> Path:
    """A runtime that was last used so many days ago, by a process that is gone."""
    made = await build_runtime(Small(version=version).runtime, cache)
    assert made.use is not None
    made.use.close()
    age(made.folder, days)
    return made.folder


def test_build_says_what_it_built_and_what_was_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    build = ["build", "small", f"run.cache={tmp_path}"]
    assert main(build) == 0
    folder = runtime_folder(Small().runtime, tmp_path)
    assert (folder / "agent").read_text() == "x" * 5000
    assert f"small: built: {folder}" in capsys.readouterr().out
    assert main(["build", "all", "sandbox=docker", f"run.cache={tmp_path}"]) == 0
    assert f"small: was there: {folder}" in capsys.readouterr().out
    assert main([*build, "harness.options.version=3"]) == 0
    assert [kept.name for kept in kept_runtimes(tmp_path)] == ["small-2", "small-3"]


def test_one_that_cannot_be_built_is_named_and_the_others_are_built(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["build", "nobody", "small", f"run.cache={tmp_path}"]) == 1
    shown = capsys.readouterr().out
    assert "nobody: harness=nobody: there is no such harness; there are small" in shown
    assert "small: built: " in shown


@pytest.mark.parametrize("arguments", [["build", "sandbox=docker"], ["build", "small", "no.such.key=1"]])
def test_a_wrong_argument_is_one_line(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    assert re.fullmatch(r"lego_verl: .+\n", capsys.readouterr().err)


async def test_list_shows_harnesses_and_what_else_is_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["list", "--cache", str(tmp_path)]) == 0
    assert re.search(r"small +small-2 +local, docker +not built", capsys.readouterr().out)
    await built(tmp_path, "2", 0)
    old = await built(tmp_path, "1", 400)
    assert main(["list", "--cache", str(tmp_path)]) == 0
    shown = capsys.readouterr().out
    assert re.search(r"small +small-2 +local, docker +[\d.]+ kB", shown)
    assert re.search(
        rf"none by default +small-1 .*{time.strftime('%Y', time.localtime(time.time() - 400 * DAY))}", shown
    )
    assert old.name in shown


async def test_clean_removes_what_no_harness_asks_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = await built(tmp_path, "2", 30)
    old = await built(tmp_path, "1", 2)
    young = await built(tmp_path, "0", 0.1)
    killed = tmp_path / "runtimes" / f".{asked.name}-abc123"
    killed.mkdir()
    clean = ["clean", "--cache", str(tmp_path)]
    assert main([*clean, "--dry-run"]) == 1
    assert "would be freed" in capsys.readouterr().out
    assert old.exists()
    assert killed.exists()
    assert main(clean) == 0
    assert old.name in capsys.readouterr().out
    assert not old.exists()
    assert not killed.exists()
    assert asked.exists()
    assert young.exists()
    assert main(clean) == 0
    assert "nothing is kept that nobody asks for" in capsys.readouterr().out
    assert main([*clean, "--days", "7"]) == 0
    assert not asked.exists()
    assert young.exists()
    assert main([*clean, "--days", "0"]) == 0
    assert kept_runtimes(tmp_path) == []


async def test_what_a_process_uses_is_never_removed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    used = await build_runtime(Small(version="1").runtime, tmp_path)
    age(used.folder, 30)
    assert in_use(used.folder)
    assert not remove_runtime(used.folder)
    assert main(["clean", "--days", "0", "--cache", str(tmp_path)]) == 0
    assert "stays: a process uses it" in capsys.readouterr().out
    assert used.folder.exists()
    assert used.use is not None
    used.use.close()
    assert not in_use(used.folder)
    assert remove_runtime(used.folder)
    assert not used.folder.exists()
    # Removed or not: who asks gets a whole one.
    again = await build_runtime(Small(version="1").runtime, tmp_path)
    assert (again.folder / "agent").exists()


async def test_a_builder_that_works_keeps_its_folder(tmp_path: Path) -> None:
    folder = runtime_folder(Small().runtime, tmp_path)
    part = folder.with_name(f".{folder.name}-abc123")
    part.mkdir(parents=True)
    with lock_of(folder).open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert main(["clean", "--cache", str(tmp_path)]) == 0
        assert part.exists()
    assert main(["clean", "--cache", str(tmp_path)]) == 0
    assert not part.exists()


async def test_being_asked_for_counts_as_use(tmp_path: Path) -> None:
    folder = await built(tmp_path, "2", 30)
    await build_runtime(Small().runtime, tmp_path)
    (kept,) = kept_runtimes(tmp_path)
    assert kept.folder == folder
    assert time.time() - kept.used < DAY


def test_a_harness_that_cannot_be_used_is_listed_with_its_reason(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Small, "runtime", Runtime(name="small-9", python="9.9"))
    (found,) = wanted.wanted_runtimes(tmp_path)
    assert found.folders == {}
    assert main(["list", "--cache", str(tmp_path)]) == 0
    assert "9.9" in capsys.readouterr().out

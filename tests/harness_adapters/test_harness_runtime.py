"""Runtimes are built once, whole or not at all, whoever asks and whatever happens to the builder."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import sysconfig
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest

from harness_adapters import interpreter
from harness_adapters.adapter import HarnessError, Runtime
from harness_adapters.interpreter import _system_libraries, copy_interpreter, find_interpreter
from harness_adapters.runtime import MOUNTED_AT, RuntimeBuildError, build_runtime, cache_folder


def make_wheel(folder: Path, name: str = "tiny_harness") -> Path:
    """A package with two modules, as pip takes it without any network."""
    info = f"{name}-1.0.dist-info"
    contents = {
        f"{name}/__init__.py": "def main():\n    return 'it runs'\n",
        f"{name}/unused.py": "raise RuntimeError('nobody imports this')\n",
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    path = folder / f"{name}-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as wheel:
        for member, text in contents.items():
            wheel.writestr(member, text)
        wheel.writestr(f"{info}/RECORD", "".join(f"{member},,\n" for member in [*contents, f"{info}/RECORD"]))
    return path


@pytest.fixture
def tiny(tmp_path: Path) -> Runtime:
    return Runtime(
        name="tiny-harness-1.0",
        packages=[str(make_wheel(tmp_path))],
        dependencies=False,
        files={"launch.py": "import tiny_harness\nprint(tiny_harness.main())\n", "more/note.txt": "hello\n"},
        warm="import tiny_harness",
    )


def leftovers(cache: Path) -> list[str]:
    """What is in the cache but complete runtimes and locks."""
    return sorted(
        path.name
        for path in (cache / "runtimes").iterdir()
        if path.suffix not in (".lock", ".use") and not (path / "runtime.json").exists()
    )


async def test_it_is_installed_described_and_found_again(tiny: Runtime, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    told: list[str] = []
    old = os.umask(0o077)  # a careful user's: the sandbox's user must still be able to read it
    try:
        built = await build_runtime(tiny, cache, report=told.append)
    finally:
        os.umask(old)
    assert built.folder.parent == cache / "runtimes"
    assert built.digest in built.folder.name
    assert (built.folder / "more/note.txt").read_text() == "hello\n"
    description = json.loads((built.folder / "runtime.json").read_text())
    assert description["installed"] == ["tiny_harness-1.0"]
    assert description["python"] == built.python
    assert told
    unreadable = [p for p in built.folder.rglob("*") if p.stat().st_mode & (0o5 if p.is_dir() else 0o4) == 0]
    assert unreadable == []
    # Only what `warm` imported has bytecode, and only that was run.
    compiled = [path.name.split(".")[0] for path in (built.folder / "site/tiny_harness").rglob("*.pyc")]
    assert compiled == ["__init__"]
    assert leftovers(cache) == []

    before = (built.folder / "runtime.json").stat().st_ino  # its time says when it was last used
    assert await build_runtime(tiny, cache, report=lambda doing: pytest.fail(f"built again: {doing}")) == built
    assert (built.folder / "runtime.json").stat().st_ino == before


async def test_what_is_asked_for_decides_the_place(tiny: Runtime, tmp_path: Path) -> None:
    first = await build_runtime(tiny, tmp_path)
    second = await build_runtime(replace(tiny, files={"launch.py": "pass\n"}), tmp_path)
    assert first.folder != second.folder
    assert (first.folder / "more").exists()
    assert not (second.folder / "more").exists()


async def test_two_processes_build_it_once(tiny: Runtime, tmp_path: Path) -> None:
    program = (
        "import asyncio, pickle, sys; from pathlib import Path; from harness_adapters.runtime import build_runtime;"
        "r = pickle.loads(bytes.fromhex(sys.argv[1])); print(asyncio.run(build_runtime(r, Path(sys.argv[2]))).folder)"
    )
    import pickle

    arguments = [sys.executable, "-c", program, pickle.dumps(tiny).hex(), str(tmp_path / "cache")]
    both = [
        await asyncio.create_subprocess_exec(*arguments, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE)
        for _ in range(2)
    ]
    said = [await process.communicate() for process in both]
    assert [process.returncode for process in both] == [0, 0], said
    assert said[0][0] == said[1][0]
    (log,) = (tmp_path / "cache/logs").iterdir()
    assert log.read_text().count("-m pip") == 1
    assert leftovers(tmp_path / "cache") == []


async def test_what_cannot_be_installed_is_one_line_and_leaves_nothing(tiny: Runtime, tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    missing = replace(tiny, packages=[str(tmp_path / "no_such_harness-9.9-py3-none-any.whl")])
    with pytest.raises(RuntimeBuildError) as error:
        await build_runtime(missing, cache)
    text = str(error.value)
    assert "\n" not in text
    assert "tiny-harness-1.0 cannot be installed" in text
    assert "no_such_harness-9.9" in text
    log = Path(text.rpartition("pip's output: ")[2].rstrip(")"))
    assert "no_such_harness" in log.read_text()
    assert leftovers(cache) == []


async def test_what_does_not_start_is_said_too(tiny: Runtime, tmp_path: Path) -> None:
    broken = replace(tiny, warm="import tiny_harness.unused")
    with pytest.raises(RuntimeBuildError, match="installed but does not start: RuntimeError: nobody imports this"):
        await build_runtime(broken, tmp_path)
    assert leftovers(tmp_path) == []


async def test_a_builder_that_is_cancelled_or_was_killed_leaves_nothing(tiny: Runtime, tmp_path: Path) -> None:
    slow = replace(tiny, warm="import time, os; open('/proc/self/comm', 'w').write('slow-warm'); time.sleep(600)")
    task = asyncio.create_task(build_runtime(slow, tmp_path))
    for _ in range(600):
        if processes_named("slow-warm"):
            break
        await asyncio.sleep(0.05)
    assert processes_named("slow-warm")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert leftovers(tmp_path) == []
    assert processes_named("slow-warm") == []

    built = await build_runtime(tiny, tmp_path)
    half = tmp_path / "runtimes" / f".{built.folder.name}-killed"
    (half / "site").mkdir(parents=True)
    built.folder.rename(tmp_path / "away")
    await build_runtime(tiny, tmp_path)
    assert not half.exists()


def processes_named(name: str) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/comm"):
        try:
            if path.read_text().strip() == name:
                found.append(path.parent.name)
        except OSError:
            continue
    return found


async def test_a_cache_that_cannot_be_written_is_named(tiny: Runtime, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(RuntimeBuildError, match=r"the cache .*/file/cache cannot be written: Not a directory"):
        await build_runtime(tiny, tmp_path / "file/cache")


def test_the_cache_is_what_is_given_then_what_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LEGO_VERL_CACHE", "/somewhere")
    assert cache_folder("/given") == Path("/given")
    assert cache_folder() == Path("/somewhere")
    monkeypatch.delenv("LEGO_VERL_CACHE")
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert cache_folder() == Path("/var/cache/lego_verl")
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    assert cache_folder() == Path.home() / ".cache/lego_verl"


def test_an_interpreter_that_is_too_old_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(HarnessError, match=r"needs Python 3\.99 or newer"):
        find_interpreter("3.99", share_usr=True)
    assert find_interpreter("3.9", share_usr=False).shared is None


async def test_a_runtime_may_bring_its_interpreter(tiny: Runtime, tmp_path: Path) -> None:
    built = await build_runtime(tiny, tmp_path / "cache", share_usr=False)
    assert built.python.startswith(f"{MOUNTED_AT}/python/bin/")
    elsewhere = tmp_path / "mounted"
    built.folder.rename(elsewhere)
    python = elsewhere / Path(built.python).relative_to(MOUNTED_AT)
    code = "import sys, ssl, ctypes, sqlite3; sys.path.insert(0, sys.argv[1]); import tiny_harness; print(sys.prefix)"
    ran = subprocess.run(
        [python, "-S", "-E", "-c", code, elsewhere / "site"], capture_output=True, text=True, env={}, check=False
    )
    assert ran.returncode == 0, ran.stderr
    assert ran.stdout.strip() == str(elsewhere / "python")
    assert not (elsewhere / "python/lib" / f"python3.{sys.version_info.minor}" / "test").exists()


def test_a_copied_interpreter_keeps_its_library_path_to_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = interpreter._asked(Path(sys.executable))
    monkeypatch.setattr(interpreter, "_asked", lambda path: {**asked, "shared": True, "libraries": "/nowhere"})
    python = copy_interpreter(tmp_path / "python")
    shown = subprocess.run(
        [python, "-S", "-E", "-c", "import os; print(os.environ['LEGO_OUTER_LD_LIBRARY_PATH'])"],
        capture_output=True,
        text=True,
        env={"LD_LIBRARY_PATH": "/theirs"},
        check=True,
    )
    assert shown.stdout == "/theirs\n"


def test_a_copied_interpreter_brings_what_it_is_linked_with() -> None:
    found = _system_libraries(Path(sysconfig.get_paths()["stdlib"]))
    names = [library.name for library in found]
    assert {"libstdc++.so.6", "libgcc_s.so.1"} <= set(names)
    assert any(name.startswith("libz.so") for name in names)
    assert not [name for name in names if name.startswith(("libc.so", "libm.so", "ld-linux"))], "those are the image's"
    assert all(library.is_file() for library in found)

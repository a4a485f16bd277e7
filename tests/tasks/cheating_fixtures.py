"""Tasks to cheat at, and what the tests of cheaters and of the task check share."""

from __future__ import annotations

import asyncio
import json
import shutil
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from lego_verl.taskcheck.try_cheater import Attempt, try_script
from lego_verl.tasks.cheaters import load_cheaters
from lego_verl.tasks.harbor import read_task
from lego_verl.tasks.harbor_writer import TaskFiles, write_task
from lego_verl.tasks.task import Task
from lego_verl.trial.bench import Baselines
from sandbox.docker import DockerBackend
from sandbox.local import LocalBackend
from sandbox.sandbox import Limits

CHEATERS = {each.name: each for each in load_cheaters()}
HANGING = {"hang_when_graded", "spoil_and_hang", "stop_the_verifier"}
"""Who takes all the time that there is."""
LIMITS = Limits(memory_mb=256, processes=64, disk_mb=64)

_ONE_PROCESS = """#!/bin/bash
cp /tests/hidden.py tests/test_hidden.py
PYTHONPATH=src python3 -B -m unittest tests/test_hidden.py
if [ $? -eq 0 ]; then echo 1 >/logs/verifier/reward.txt; else echo 0 >/logs/verifier/reward.txt; fi
"""


@contextmanager
def open_folder() -> Iterator[Path]:
    """A temporary folder that other users may enter: tests are mounted from it. (pytest's own is private.)"""
    folder = Path(tempfile.mkdtemp(prefix="lego-test-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        shutil.rmtree(folder)


def honest(task: Task) -> bytes:
    """A script that does what the reference patch does."""
    assert task.solution is not None
    patch = (task.solution / "reference.patch").read_bytes()
    return b"#!/bin/bash\ncat >/tmp/patch <<'PATCH'\n" + patch + b"PATCH\ngit apply /tmp/patch\n"


def judged_in_one_process(toy: Task, folder: Path) -> Task:
    """A toy task whose tests are as most are: unittest, imported beside the code, believed by their exit status."""
    shutil.copytree(toy.folder, folder)
    asked = json.loads((folder / "tests/questions.json").read_text())
    (folder / "tests/questions.json").unlink()
    (folder / "tests/questions.py").unlink()
    lines = ["import unittest", *asked["imports"], "", "", "class Hidden(unittest.TestCase):"]
    for number, (expression, value) in enumerate(asked["questions"]):
        lines += [f"    def test_{number}(self):", f"        self.assertEqual({expression}, {value})", ""]
    (folder / "tests/hidden.py").write_text("\n".join(lines))
    (folder / "tests/test.sh").write_text(_ONE_PROCESS)
    return read_task(folder)


def small_task(folder: Path, *, before: str, patch: str, test: str) -> Task:
    """A task over one file, ``calc.py``."""
    files = TaskFiles(
        "Mend calc.py.",
        {"Dockerfile": b"FROM scratch\nWORKDIR /testbed\nCOPY repo/ /testbed/\n", "repo/calc.py": before.encode()},
        {"test.sh": test.encode()},
        {"reference.patch": patch.encode()},
    )
    write_task(folder, files)
    return read_task(folder)


class Arena:
    """One task of each kind, a backend, and the base trees that were recorded."""

    def __init__(self, tasks: list[Task], folder: Path, *, docker: str | None = None) -> None:
        self.tasks, self.folder = tasks, folder
        scratch = folder / "scratch"
        self.backend = LocalBackend(scratch=scratch) if docker is None else DockerBackend([docker], scratch=scratch)
        self.baselines = Baselines()
        self._slots = asyncio.Semaphore(4)

    async def attempt(
        self, task: Task, name: str, script: bytes, *, control: bool = False, grading_seconds: float = 60.0
    ) -> Attempt:
        async with self._slots:
            return await try_script(
                self.backend,
                task,
                name,
                script,
                limits=LIMITS,
                run="cheaters",
                seconds=60.0,
                grading_seconds=grading_seconds,
                baselines=self.baselines,
                control=control,
            )

    async def cheat(
        self, tasks: list[Task], names: Iterable[str] = CHEATERS, *, control: bool = False
    ) -> Mapping[str, Attempt]:
        """Every cheater at one task; the tasks take turns, so that every idea meets one and every task meets many."""
        chosen = [CHEATERS[name] for name in sorted(names)]
        attempts = [
            self.attempt(
                tasks[number % len(tasks)],
                each.name,
                each.script,
                control=control,
                grading_seconds=8.0 if each.name in HANGING else 60.0,
            )
            for number, each in enumerate(chosen)
        ]
        return {attempt.name: attempt for attempt in await asyncio.gather(*attempts)}

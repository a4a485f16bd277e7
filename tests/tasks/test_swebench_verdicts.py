"""From a row of a dataset to a verdict, in real sandboxes, with real pytest and unittest."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from cheating_fixtures import open_folder
from swebench_fixtures import (
    AT_EXIT,
    AT_EXIT_WITH_SUCCESS,
    ID,
    INSTEAD_OF_THE_RUNNER,
    MARKERS,
    NOISE,
    Repository,
    environment,
)

from lego_verl.tasks.check import check_task
from lego_verl.tasks.swebench import swebench_tasks
from lego_verl.tasks.swebench_options import SwebenchOptions
from lego_verl.tasks.task import Task
from sandbox.docker import DockerBackend
from sandbox.docker_build import build_folder
from sandbox.docker_host import DockerHost
from sandbox.grader import Verdict, grade
from sandbox.local import LocalBackend
from sandbox.sandbox import Image, Limits, SandboxError

IMAGE = f"sweb.eval.x86_64.{ID}:latest"
_UNITTEST = SwebenchOptions(test_command="python3 -m unittest -v {files}", log_parser="django")


@dataclass
class Arena:
    """A repository, the image of it, and where it is graded."""

    backend: LocalBackend | DockerBackend
    image: Image
    repository: Repository
    folder: Path

    def task(self, row: dict[str, object] | None = None, options: SwebenchOptions | None = None) -> Task:
        """A row, through a file, as a task."""
        row = row or self.repository.row()
        source = self.folder / f"{row['instance_id']}.jsonl"
        source.write_text(json.dumps(row) + "\n")
        return swebench_tasks(str(source), self.folder / "tasks" / str(row["instance_id"]), options)[0]

    async def grade(self, task: Task, patch: bytes, *, deadline: float = 120.0, control: bool = False) -> Verdict:
        return await grade(
            self.backend,
            self.image,
            patch,
            task.tests,
            deadline=deadline,
            limits=Limits(memory_mb=1024, disk_mb=256),
            run="test-swebench",
            trial=task.name,
            control=control,
        )


@pytest.fixture(scope="module")
def made() -> Iterator[tuple[Repository, Path, Path]]:
    with open_folder() as folder:
        repository = Repository(folder / "repository")
        yield repository, environment(folder / "environment", repository), folder


@pytest.fixture(scope="module", params=["local", "docker"])
def arena(request: pytest.FixtureRequest, made: tuple[Repository, Path, Path]) -> Arena:
    repository, built_of, folder = made
    scratch = folder / f"scratch-{request.param}"
    if request.param == "local":
        return Arena(LocalBackend(scratch=scratch), Image(built_of), repository, folder)
    url = request.getfixturevalue("daemon")

    async def build() -> None:
        host = DockerHost(url)
        built = await build_folder(host, built_of)
        await host.call(lambda api: api.tag(built, *IMAGE.split(":")))

    asyncio.run(build())
    return Arena(DockerBackend([url], scratch=scratch), Image(reference=IMAGE), repository, folder)


@pytest.fixture(scope="module")
def local(made: tuple[Repository, Path, Path]) -> Arena:
    repository, built_of, folder = made
    return Arena(LocalBackend(scratch=folder / "scratch"), Image(built_of), repository, folder)


async def test_the_image_is_named_as_swebench_names_it(arena: Arena) -> None:
    task = arena.task()
    assert (task.image, task.workdir) == (IMAGE, "/testbed")

    async def reward(task: Task, patch: bytes) -> float:
        verdict = await arena.grade(task, patch)
        assert verdict.status == "graded", verdict.output
        assert verdict.reward is not None
        return verdict.reward

    await check_task(task, reward)


@pytest.mark.parametrize("row", ["swebench 5's", "classic"])
async def test_the_reference_passes_and_nothing_does_not(local: Arena, row: str) -> None:
    task = local.task() if row == "swebench 5's" else local.task(local.repository.classic_row(), _UNITTEST)
    right = await local.grade(task, local.repository.calc())
    assert (right.reward, right.status, right.signs) == (1.0, "graded", ()), right.output
    assert "[FAIL_TO_PASS: 1 of 1]" in right.output
    nothing = await local.grade(task, b"")
    assert (nothing.reward, nothing.status) == (0.0, "graded")
    assert "[exit 1]\n[FAIL_TO_PASS: 0 of 1, not " in nothing.output


Make = Callable[[Repository], bytes]
HONEST: dict[str, tuple[Make, str]] = {
    "breaks what passed": (
        lambda one: one.calc(zero="return 1"),
        "PASS_TO_PASS: 2 of 3, not tests/test_calc.py::",
    ),
    "has the new test skipped": (lambda one: one.calc(body="import pytest\npytest.skip('later')"), "TO_PASS: 0 of 1"),
    "makes a test go missing": (lambda one: one.calc(cases="[1]"), "not tests/test_calc.py::test_case[2]"),
    "cannot be imported": (lambda one: one.calc(top="import nothing_of_that_name"), "FAIL_TO_PASS: 0 of 1"),
    "rewrites the tests": (
        lambda one: one.patch({"tests/test_calc.py": "def test_add(): pass\n\n\ndef test_zero(): pass\n"}),
        "FAIL_TO_PASS: 0 of 1, not tests/test_calc.py::test_add]\n[PASS_TO_PASS: 3 of 3]",
    ),
    "deletes the tests": (lambda one: one.patch({"tests/test_calc.py": None}), "FAIL_TO_PASS: 0 of 1"),
    "has a folder where a test is": (
        lambda one: one.patch({"tests/test_calc.py": None, "tests/test_calc.py/x": "x"}),
        "FAIL_TO_PASS: 0 of 1, not tests/test_calc.py::test_add]\n[PASS_TO_PASS: 3 of 3]",
    ),
    "links the tests elsewhere": (
        lambda one: one.patch({"elsewhere/test_calc.py": "def test_add(): pass\n"}, {"tests": "elsewhere"}),
        "FAIL_TO_PASS: 0 of 1, not tests/test_calc.py::test_add]\n[PASS_TO_PASS: 3 of 3]",
    ),
}


@pytest.mark.parametrize("what", HONEST)
async def test_what_earns_nothing(local: Arena, what: str) -> None:
    make, told = HONEST[what]
    verdict = await local.grade(local.task(local.repository.bare_row()), make(local.repository))
    assert (verdict.reward, verdict.status) == (0.0, "graded"), verdict.output
    assert told in verdict.output


async def test_a_test_that_passed_and_is_skipped_now_is_kept(local: Arena) -> None:
    task = local.task(local.repository.classic_row(), _UNITTEST)
    skips = "import unittest; raise unittest.SkipTest('later')"
    kept = await local.grade(task, local.repository.calc(zero=skips))
    assert (kept.reward, kept.status) == (1.0, "graded")
    assert "skipped 'later'" in kept.output
    new = await local.grade(task, local.repository.calc(body=skips))
    assert (new.reward, new.status) == (0.0, "graded")


CHEATERS: dict[str, tuple[Make, str]] = {
    "prints at exit": (
        lambda one: one.calc(body="return 5", top=AT_EXIT),
        "reported as not passed, and as passed further on: tests/test_calc.py::test_add",
    ),
    "prints at exit and leaves with success": (
        lambda one: one.calc(body="return 5", top=AT_EXIT_WITH_SUCCESS),
        "reported as not passed, and as passed further on: tests/test_calc.py::test_add",
    ),
    "leaves with success": (
        lambda one: one.calc(top="import os\nos._exit(0)"),
        "the tests ended with success and reported nothing",
    ),
    "speaks as the grader": (
        lambda one: one.calc(body="return 5", top=MARKERS),
        "the output has lines of the grader's own: "
        ">>>>> End Test Output, >>>>> Start Test Output, >>>>> Test Exit Code",
    ),
}


@pytest.mark.parametrize("what", CHEATERS)
async def test_what_is_told(arena: Arena, what: str) -> None:
    make, told = CHEATERS[what]
    verdict = await arena.grade(arena.task(), make(arena.repository))
    assert (verdict.reward, verdict.status, verdict.signs) == (0.0, "tampered", (told,)), verdict.output


async def test_what_remains_is_told_by_the_control_experiment(local: Arena) -> None:
    task = local.task()
    forged = local.repository.calc(body="return 5", top=INSTEAD_OF_THE_RUNNER)
    assert (await local.grade(task, forged)).reward == 1.0
    told = await local.grade(task, forged, control=True)
    assert (told.reward, told.status) == (0.0, "tampered")
    right = await local.grade(task, local.repository.calc(), control=True)
    assert (right.reward, right.status) == (1.0, "graded")


async def test_what_runs_before_the_tests_cannot_change_them(local: Arena) -> None:
    rewrites = """
    import os, sys
    if not any("pytest" in word for word in sys.argv):
        for path in ("tests/test_calc.py", "/testbed/tests/test_calc.py"):
            os.path.exists(path) and open(path, "w").write("def test_add(): pass\\ndef test_zero(): pass\\n")
        os.system("git -C /testbed add -A; git -C /testbed -c user.name=x -c user.email=x commit -qm x")
    """
    row = local.repository.row()
    row["eval_script"] = str(row["eval_script"]).replace("export WHERE", "python3 -c 'import calc'\nexport WHERE")
    task = local.task(row)
    top = "\n".join(line.removeprefix("    ") for line in rewrites.splitlines())
    verdict = await local.grade(task, local.repository.calc(body="return 5", top=top))
    assert (verdict.reward, verdict.status) == (0.0, "graded"), verdict.output
    assert "FAIL_TO_PASS: 0 of 1" in verdict.output
    assert (await local.grade(task, local.repository.calc())).reward == 1.0


async def test_nothing_of_what_counts_is_in_the_sandbox(local: Arena) -> None:
    looks = "import os\nos.system('ls -d /tests /tmp/.owned* /tmp/.report*/*; cat /tmp/.report*/* /tests/* 1>&2')"
    verdict = await local.grade(local.task(), local.repository.calc(body=looks))
    assert "test.sh" in verdict.output
    assert "cannot access '/tests'" in verdict.output
    assert "cannot access '/tmp/.owned*'" in verdict.output
    assert '"FAIL_TO_PASS"' not in verdict.output


@pytest.mark.parametrize("where", ["in the tests", "before them"])
async def test_no_verdict_where_time_is_over(local: Arena, where: str) -> None:
    row = local.repository.row()
    if where == "before them":
        row["eval_script"] = str(row["eval_script"]).replace("export WHERE", "python3 -c 'import calc'\nexport WHERE")
    waits = "import sys, time\n" + ("if sys.argv[0] == '-c': time.sleep(600)" if where == "before them" else "")
    patch = local.repository.calc(body="while True: pass", top=waits)
    verdict = await local.grade(local.task(row), patch, deadline=5.0)
    assert (verdict.reward, verdict.status) == (None, "timeout")


async def test_a_script_that_ends_before_its_tests(local: Arena) -> None:
    row = local.repository.row()
    row["eval_script"] = str(row["eval_script"]).replace("export WHERE", "exit 0\nexport WHERE")
    verdict = await local.grade(local.task(row), local.repository.calc())
    assert (verdict.reward, verdict.status) == (0.0, "graded")
    assert "setup.sh ended before its end: exit 0" in verdict.output


async def test_output_over_the_limit_is_no_pass(local: Arena, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sandbox.by_report._OUTPUT_BYTES", 1000)
    task = local.task()
    limits = Limits(memory_mb=1024, disk_mb=256, output_bytes=1000)
    noisy = local.repository.calc(top=NOISE)
    verdict = await grade(
        local.backend, local.image, noisy, task.tests, deadline=60, limits=limits, run="test-swebench", trial="noisy"
    )
    assert verdict.reward == 0.0
    assert "bytes of output more than are kept" in verdict.output


async def test_a_broken_task_is_nobodys_zero(local: Arena) -> None:
    task = local.task()
    (task.tests / "test.patch").write_text(local.repository.test_patch.replace("assert case in", "assert case not in"))
    with pytest.raises(SandboxError, match="the tests' own patch does not apply to the base"):
        await local.grade(task, local.repository.calc())

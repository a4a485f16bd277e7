"""The verdict on a patch, with real repositories and real test scripts."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest
from sandbox_helpers import git, remaining, until

from sandbox.grader import Verdict, grade
from sandbox.local import LocalBackend
from sandbox.sandbox import Image, ImageMissing, Limits, SandboxError

_RIGHT = b"""diff --git a/calc.py b/calc.py
--- a/calc.py
+++ b/calc.py
@@ -1,2 +1,2 @@
 def add(a, b):
-    return a - b
+    return a + b
"""
_TEST = """
cd /testbed
if python3 -c 'import calc; assert calc.add(2, 2) == 4'; then echo 1; else echo 0; fi >/logs/verifier/reward.txt
"""


@pytest.fixture
def tests(open_tmp: Path) -> Path:
    folder = open_tmp / "tests"
    folder.mkdir()
    (folder / "test.sh").write_text(_TEST)
    return folder


@pytest.fixture
def judge(backend: LocalBackend, environment: Path, tests: Path):  # type: ignore[no-untyped-def]
    async def judge(patch: bytes = b"", script: str | None = None, **options) -> Verdict:  # type: ignore[no-untyped-def]
        if script is not None:
            (tests / "test.sh").write_text(script)
        settings = {"deadline": 20.0, "limits": Limits(), "run": "run", "trial": "t7"} | options
        verdict = await grade(backend, Image(folder=environment), patch, tests, **settings)
        assert await remaining(backend) == []
        return verdict

    return judge


async def test_right_wrong_and_empty(judge) -> None:  # type: ignore[no-untyped-def]
    right = await judge(_RIGHT)
    assert (right.reward, right.status) == (1.0, "graded")
    assert 0 < right.seconds < 20
    wrong = await judge(_RIGHT.replace(b"a + b", b"a * a * b"))
    assert (wrong.reward, wrong.status) == (0.0, "graded")
    assert "AssertionError" in wrong.output
    assert (await judge(b"")).reward == 0.0


@pytest.mark.parametrize("patch", [b"nonsense", _RIGHT.replace(b"a - b", b"a ~ b"), _RIGHT[:60]])
async def test_a_patch_that_does_not_apply(judge, patch: bytes) -> None:  # type: ignore[no-untyped-def]
    verdict = await judge(patch)
    assert (verdict.reward, verdict.status) == (0.0, "patch_failed")
    assert "does not apply" in verdict.output


@pytest.mark.parametrize(
    ("written", "reward"),
    [
        ("echo 0.25 >/logs/verifier/reward.txt", 0.25),
        ('echo \'{"reward": 0.5, "other": 1}\' >/logs/verifier/reward.json', 0.5),
        ("echo '{\"score\": 0.75}' >/logs/verifier/reward.json", 0.75),
        ("printf 1 >/logs/verifier/reward.txt; exit 1", 1.0),
    ],
)
async def test_the_forms_of_a_reward(judge, written: str, reward: float) -> None:  # type: ignore[no-untyped-def]
    assert (await judge(script=written)).reward == reward


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("echo hello", "hello\n\n[exit 0; the verifier wrote neither"),
        ("exit 3", "[exit 3;"),
        ("echo yes >/logs/verifier/reward.txt", "holds 'yes', not a reward"),
        ("echo NaN >/logs/verifier/reward.txt", "not a reward"),
        ("echo true >/logs/verifier/reward.txt", "not a reward"),
        (": >/logs/verifier/reward.txt", "not a reward"),
        ('echo \'{"a": 1, "b": 2}\' >/logs/verifier/reward.json', "not a reward"),
        ("head -c 2000000 /dev/zero >/logs/verifier/reward.txt", "not a reward"),
    ],
)
async def test_no_reward_is_no_verdict(judge, script: str, said: str) -> None:  # type: ignore[no-untyped-def]
    verdict = await judge(script=script)
    assert (verdict.reward, verdict.status) == (None, "failed")
    assert said in verdict.output


async def test_a_verifier_that_hangs(judge) -> None:  # type: ignore[no-untyped-def]
    script = "echo 1 >/logs/verifier/reward.txt; trap '' TERM; setsid sleep 100 & while :; do sleep 1; done"
    verdict = await judge(script=script, deadline=1.0)
    assert (verdict.reward, verdict.status) == (None, "timeout")
    assert "no verdict within 1 s" in verdict.output


async def test_a_verifier_that_takes_all_memory(judge) -> None:  # type: ignore[no-untyped-def]
    hog = "python3 -c 'import time\nkept = []\nwhile True: kept.append(bytearray(10 << 20)); time.sleep(0.01)'"
    verdict = await judge(script=hog, limits=Limits(memory_mb=200))
    assert (verdict.reward, verdict.status) == (None, "failed")
    assert "over 200 MiB" in verdict.output


async def test_nothing_left_running_can_change_the_reward(judge) -> None:  # type: ignore[no-untyped-def]
    script = "(setsid bash -c 'sleep 0.5; echo 1 >/logs/verifier/reward.txt' &) ; echo 0 >/logs/verifier/reward.txt"
    assert (await judge(script=script)).reward == 0.0


async def test_logs_that_were_there_do_not_count(judge, environment: Path) -> None:  # type: ignore[no-untyped-def]
    (environment / "reward").write_text("1")
    with (environment / "Dockerfile").open("a") as file:
        file.write("COPY reward /logs/verifier/reward.txt\n")
    assert (await judge(script="true")).status == "failed"


async def test_tests_cannot_be_written_and_the_folder_on_the_host_stays(judge, tests: Path) -> None:  # type: ignore[no-untyped-def]
    script = "rm -rf /tests/*; echo 1 >/tests/test.sh; chmod u+w /tests; mv /tests /moved; ls /tests\n" + _TEST
    verdict = await judge(_RIGHT, script)
    assert verdict.reward == 1.0
    assert (tests / "test.sh").read_text() == script


async def test_a_reward_that_is_no_file(judge) -> None:  # type: ignore[no-untyped-def]
    for script in ("ln -s /tests/one /logs/verifier/reward.txt", "mkdir /logs/verifier/reward.json"):
        verdict = await judge(script=script)
        assert (verdict.reward, verdict.status) == (0.0, "tampered")


async def test_paths_that_the_tests_own_are_restored(judge, environment: Path) -> None:  # type: ignore[no-untyped-def]
    repo = environment / "repo"
    (repo / "tests").mkdir()
    (repo / "tests" / "test_calc.py").write_text("from calc import add\nassert add(2, 2) == 4\n")
    git(repo, "add", "-A")
    git(repo, "commit", "-qm", "tests")
    patch = b"""diff --git a/tests/test_calc.py b/tests/test_calc.py
--- a/tests/test_calc.py
+++ b/tests/test_calc.py
@@ -1,2 +1 @@
-from calc import add
-assert add(2, 2) == 4
+pass
diff --git a/tests/calc.py b/tests/calc.py
new file mode 100644
--- /dev/null
+++ b/tests/calc.py
@@ -0,0 +1 @@
+add = max
diff --git a/conftest.py b/conftest.py
new file mode 100644
--- /dev/null
+++ b/conftest.py
@@ -0,0 +1 @@
+pass
"""
    script = """
cd /testbed
PYTHONPATH=. python3 tests/test_calc.py && echo 1 >/logs/verifier/reward.txt || echo 0 >/logs/verifier/reward.txt
ls conftest.py tests; git status --porcelain
"""
    assert (await judge(patch, script)).reward == 1.0
    restored = await judge(patch, script, restore=["tests", "conftest.py"])
    assert restored.reward == 0.0
    assert "ls: cannot access 'conftest.py'" in restored.output
    assert "tests:\ntest_calc.py\n" in restored.output
    assert (await judge(patch + _RIGHT, script, restore=["tests", "conftest.py"])).reward == 1.0


async def test_faults_of_the_machine_are_raised(judge, backend: LocalBackend, environment: Path, tests: Path) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ImageMissing):
        await grade(backend, Image(reference="x:1"), b"", tests, deadline=1, limits=Limits(), run="run", trial="t7")
    (tests / "hidden.py").write_text("")
    (tests / "hidden.py").chmod(0o600)
    with pytest.raises(SandboxError, match=r"hidden.py is not readable for the sandbox's user: chmod -R a\+rX"):
        await judge()
    (tests / "test.sh").unlink()
    with pytest.raises(SandboxError, match=r"test.sh does not exist"):
        await judge()


async def test_a_cancelled_grading_leaves_nothing(judge, backend: LocalBackend) -> None:  # type: ignore[no-untyped-def]
    began = time.monotonic()
    await judge()
    whole = time.monotonic() - began
    for part in (0.02, 0.1, 0.3, 0.6, 1.5):
        task = asyncio.create_task(judge(script="sleep 100"))
        await asyncio.sleep(part * whole)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    async def gone() -> bool:
        return await remaining(backend) == []

    await until(gone, "nothing is left")

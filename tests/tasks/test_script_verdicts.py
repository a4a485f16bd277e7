"""What a verifier leaves as its reward, and what an attacker leaves in its place: a reward, none, or an attack."""

from __future__ import annotations

import pytest
from cheating_fixtures import LIMITS, open_folder, small_task

from sandbox.grader import Verdict, grade
from sandbox.hardening import planted
from sandbox.local import LocalBackend
from sandbox.patch import PatchError, record_baseline, take_patch
from sandbox.sandbox import Image, SandboxSpec

_BEFORE = "x = 1\n"
_PATCH = "diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n@@ -1 +1 @@\n-x = 1\n+x = 2\n"


async def judged(script: str, *, control: bool = False, hidden: str = "", before: str = _BEFORE) -> Verdict:
    with open_folder() as folder:
        task = small_task(folder / "it", before=before, patch=_PATCH, test=script)
        if hidden:
            (task.tests / "hidden.py").write_text(hidden)
        return await grade(
            LocalBackend(scratch=folder / "scratch"),
            Image(task.environment, task.image, task.workdir),
            b"",
            task.tests,
            deadline=30,
            limits=LIMITS,
            run="rewards",
            trial="it",
            control=control,
        )


NO_REWARDS = [
    *("NaN", "Infinity", "-Infinity", "1e999", "2", "1.0000001", "-0.1", "true", "null", "[1]", '"1"', ""),
    *('{"reward": {"reward": 1}}', '{"reward": true}', '{"a": 0, "b": 1}', "\\xff"),
    *("[" * 50_000, '{"reward":' * 5000, "1" + "0" * 4000, "1" * 5000, "1" * 70_000),
]
"""Not from 0 to 1, not one number, no text, or made to break whoever reads it."""


@pytest.mark.parametrize("number", range(len(NO_REWARDS)))
async def test_what_is_no_reward_is_no_verdict(number: int) -> None:
    name = "reward.json" if number % 2 else "reward.txt"
    verdict = await judged(f"printf '{NO_REWARDS[number]}' >/logs/verifier/{name}\n")
    assert (verdict.reward, verdict.status) == (None, "failed")
    assert "not a reward" in verdict.output


@pytest.mark.parametrize(
    ("text", "json", "reward"),
    [
        ("1", '{"reward": 1.0}', 1.0),
        ("0.5", '{"speed": 3, "size": 9}', 0.5),
        ("-", '{"reward": 1}', None),
        ("0", '{"reward": 1}', "tampered"),
        ("1", "0", "tampered"),
    ],
)
async def test_two_files_have_to_agree(text: str, json: str, reward: float | str | None) -> None:
    """Who writes the file that the verifier does not write, gains nothing by it."""
    verdict = await judged(f"cd /logs/verifier; echo '{text}' >reward.txt; echo '{json}' >reward.json\n")
    if reward == "tampered":
        assert (verdict.reward, verdict.status) == (0.0, "tampered")
        assert "two files with rewards that differ" in verdict.signs[0]
    else:
        assert verdict.reward == reward


_LEFT = """
(setsid bash -c '{}' </dev/null >/dev/null 2>&1 &)
echo 1 >/logs/verifier/reward.txt
exit {}
"""


async def test_a_process_that_outlived_another_is_seen_and_is_no_attack_by_itself() -> None:
    still_there = await judged(_LEFT.format("sleep 60", 0))
    assert (still_there.reward, still_there.outlived) == (1.0, True)
    gone = await judged(_LEFT.format("exit", 3).replace("echo", "sleep 0.5; echo"))
    assert (gone.reward, gone.outlived) == (1.0, True)
    none = await judged("bash -c 'sleep 0.1' & wait; echo 1 >/logs/verifier/reward.txt; exit 99\n")
    assert (none.reward, none.outlived) == (1.0, False)


_TESTED = "if python3 -B /tests/hidden.py; then echo {}; else echo 0; fi >/logs/verifier/reward.txt\n"


@pytest.mark.parametrize("reward", ["1", "0.25"])
async def test_a_part_of_a_reward_is_held_against_controls_as_all_of_it_is(reward: str) -> None:
    honest = "import sys; sys.path.insert(0, '.'); import calc; assert calc.x == 1\n"
    stood = await judged(_TESTED.format(reward), hidden=honest, control=True)
    assert (stood.reward, stood.controlled) == (float(reward), True)
    left = honest.replace("import calc", "import os; os._exit(0)")
    caught = await judged(_TESTED.format(reward), hidden=left, control=True)
    assert (caught.reward, caught.status, caught.controlled) == (0.0, "tampered", False)


async def test_a_control_without_a_verdict_is_none() -> None:
    hidden = "import sys; sys.path.insert(0, '.'); import calc; assert calc.x == 1\n"
    verdict = await judged(f"grep -q '== 2' /tests/hidden.py && exit; {_TESTED.format(1)}", hidden=hidden, control=True)
    assert (verdict.reward, verdict.status) == (None, "failed")
    assert "no verdict in the control experiment" in verdict.output


async def test_tests_that_cannot_be_changed_make_no_control() -> None:
    verdict = await judged("echo 1 >/logs/verifier/reward.txt\n", control=True)
    assert (verdict.reward, verdict.controlled) == (1.0, False)


# --- what is taken of an agent


async def test_what_the_image_has_of_the_graders_is_nobodys_plant() -> None:
    with open_folder() as folder:
        task = small_task(folder / "it", before=_BEFORE, patch=_PATCH, test="true\n")
        (task.environment / "old").write_text("1")
        with (task.environment / "Dockerfile").open("a") as file:
            file.write("COPY old /logs/verifier/old.txt\n")
        backend = LocalBackend(scratch=folder / "scratch")
        sandbox = await backend.start(SandboxSpec("plants", "it", Image(task.environment), limits=LIMITS))
        try:
            baseline = await record_baseline(sandbox)
            assert baseline.graders == ("/logs/verifier", "/logs/verifier/old.txt")
            assert await planted(sandbox, baseline.graders) == []
            await sandbox.exec(["ln", "-s", "/nowhere", "/logs/verifier/reward.txt"], deadline=9)
            assert await planted(sandbox, baseline.graders) == ["the agent has made /logs/verifier/reward.txt"]
        finally:
            await sandbox.close()


async def test_files_that_are_larger_than_their_patch() -> None:
    """One byte of a patch can be a thousand of a file: what they come to together has a limit, too."""
    with open_folder() as folder:
        task = small_task(folder / "it", before=_BEFORE, patch=_PATCH, test="true\n")
        backend = LocalBackend(scratch=folder / "scratch")
        sandbox = await backend.start(SandboxSpec("large", "it", Image(task.environment), limits=LIMITS))
        try:
            baseline = await record_baseline(sandbox)
            await sandbox.exec(["bash", "-c", "truncate -s 40M a b; rm calc.py"], deadline=9)
            with pytest.raises(PatchError, match="what was changed has 83886080 bytes, over the limit of 67108864"):
                await take_patch(sandbox, baseline)
            await sandbox.exec(["bash", "-c", "truncate -s 16M a; rm b"], deadline=9)
            assert 1000 < len(await take_patch(sandbox, baseline)) < 1 << 20
        finally:
            await sandbox.close()

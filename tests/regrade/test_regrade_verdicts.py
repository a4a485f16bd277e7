"""What comes of a patch that is graded again, beside what its trial said."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from regrade_helpers import MENDED, NO_VERDICT, RECIPE, WRONG, add_trial, contents, make_run, make_task

from lego_verl.monitor.run_folder import RunFolder, read_lines
from lego_verl.regrade import grade as grade_module
from lego_verl.regrade.find import TaskFinder, grading_part, recipe_of
from lego_verl.regrade.grade import Comparison, Regraded, regrade
from lego_verl.tasks.index import write_index
from lego_verl.tasks.task import Task
from lego_verl.trial.judge import Judgement
from lego_verl.trial.outcome import Outcome
from lego_verl.trial.retries import RetryPolicy
from sandbox.local import LocalBackend


async def graded(run: RunFolder, *folders: Path, tasks: Path | None = None) -> list[Regraded]:
    recipe = recipe_of(run)
    return await regrade(
        run,
        folders,
        backend=LocalBackend(),
        lego=grading_part(recipe),
        tasks=TaskFinder(run, recipe, extra=tasks),
        jobs=2,
        retries=RetryPolicy(retries=0),
    )


def judged(monkeypatch: pytest.MonkeyPatch, judgement: Judgement) -> list[dict[str, Any]]:
    """Every patch is judged so, and how it was asked for is told."""
    asked = []

    async def judge(*_: Any, **given: Any) -> Judgement:
        asked.append(given)
        return judgement

    monkeypatch.setattr(grade_module, "judge", judge)
    return asked


async def test_a_run_that_told_the_truth_is_the_same(run: RunFolder, task: Task) -> None:
    folders = [
        add_trial(run, "solved", task, MENDED, Outcome.SOLVED),
        add_trial(run, "unsolved", task, WRONG, Outcome.UNSOLVED),
        add_trial(run, "late", task, MENDED, Outcome.TURN_LIMIT, 1.0),
        add_trial(run, "nothing", task, b"", Outcome.NO_PATCH),
    ]
    before = contents(run.path)
    results = await graded(run, *folders)
    assert [each.comparison for each in results] == [Comparison.SAME] * 4
    assert [(each.outcome, each.reward) for each in results] == [
        (Outcome.SOLVED, 1.0), (Outcome.UNSOLVED, 0.0), (Outcome.TURN_LIMIT, 1.0), (Outcome.NO_PATCH, 0.0),
    ]  # fmt: skip
    after = contents(run.path)
    assert {name for name in after if name not in before} == {"regrade.jsonl"}
    assert {name: after[name] for name in before} == before


async def test_a_record_that_lied_is_found_out(run: RunFolder, task: Task) -> None:
    results = await graded(
        run,
        add_trial(run, "claims", task, WRONG, Outcome.SOLVED),
        add_trial(run, "denies", task, MENDED, Outcome.UNSOLVED),
        add_trial(run, "nothing", task, b"", Outcome.SOLVED),
    )
    assert [each.comparison for each in results] == [Comparison.CHANGED] * 3
    assert [(each.outcome, each.reward) for each in results] == [
        (Outcome.UNSOLVED, 0.0), (Outcome.SOLVED, 1.0), (Outcome.NO_PATCH, 0.0),
    ]  # fmt: skip
    assert results[2].error == "its patch is empty"


async def test_a_patch_that_does_not_apply_earns_nothing(run: RunFolder, task: Task) -> None:
    (result,) = await graded(run, add_trial(run, "t", task, MENDED.replace(b"-broken", b"-other"), Outcome.SOLVED))
    assert (result.comparison, result.reward) == (Comparison.CHANGED, 0.0)
    assert "does not apply" in result.error


async def test_a_trial_whose_grader_failed_gains_its_verdict(run: RunFolder, task: Task) -> None:
    (result,) = await graded(run, add_trial(run, "t", task, MENDED, Outcome.GRADER_FAILED))
    assert (result.comparison, result.outcome, result.reward) == (Comparison.CHANGED, Outcome.SOLVED, 1.0)
    assert result.reward_then is None


async def test_a_dropped_trial_that_left_nothing_is_not_judged(run: RunFolder, task: Task) -> None:
    (result,) = await graded(run, add_trial(run, "t", task, b"", Outcome.SANDBOX_LOST))
    assert (result.comparison, result.outcome, result.reward) == (Comparison.NOTHING, None, None)


async def test_a_verifier_without_a_verdict_changes_nothing(open_tmp: Path) -> None:
    task = make_task(open_tmp / "tasks/mute", NO_VERDICT)
    run = make_run(open_tmp / "run", task)
    (result,) = await graded(run, add_trial(run, "t", task, MENDED, Outcome.SOLVED))
    assert (result.comparison, result.outcome, result.reward) == (Comparison.NO_VERDICT, None, None)
    assert "no verdict" in result.error


async def test_a_patch_file_that_is_gone_is_no_verdict(run: RunFolder, task: Task) -> None:
    folder = add_trial(run, "t", task, MENDED, Outcome.SOLVED)
    (folder / "patch.diff").unlink()
    (result,) = await graded(run, folder)
    assert (result.comparison, result.error) == (Comparison.NO_VERDICT, "its patch.diff is not there")


async def test_an_attack_outranks_the_limit_that_ended_the_agent(
    run: RunFolder, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    judged(monkeypatch, Judgement(Outcome.TAMPERED, error="the reward is a link"))
    (result,) = await graded(run, add_trial(run, "t", task, MENDED, Outcome.TIME_LIMIT, 1.0))
    assert (result.comparison, result.outcome, result.reward) == (Comparison.CHANGED, Outcome.TAMPERED, 0.0)


async def test_it_is_graded_under_the_limits_of_its_run(
    run: RunFolder, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = judged(monkeypatch, Judgement(Outcome.SOLVED, 1.0))
    await graded(run, add_trial(run, "t", task, MENDED, Outcome.SOLVED))
    assert asked[0]["seconds"] == 20.0
    assert (asked[0]["limits"].memory_mb, asked[0]["limits"].disk_mb) == (256, 32)


async def test_a_task_that_changed_is_told(run: RunFolder, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = add_trial(run, "t", task, MENDED, Outcome.SOLVED)
    asked = judged(monkeypatch, Judgement(Outcome.SOLVED, 1.0))
    assert not (await graded(run, folder))[0].task_changed
    (task.tests / "test.sh").write_bytes(b"#!/bin/bash\necho 0 >/logs/verifier/reward.txt\n")
    assert (await graded(run, folder))[0].task_changed
    assert len(asked) == 2


async def test_a_task_is_taken_from_where_its_files_are_the_same(
    run: RunFolder, task: Task, open_tmp: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The folder that the dataset names was changed; the run's own copy was not."""
    judged(monkeypatch, Judgement(Outcome.SOLVED, 1.0))
    make_task(run.tasks / "heldout/mend")
    folder = add_trial(run, "t", task, MENDED, Outcome.SOLVED)
    (task.tests / "test.sh").write_bytes(b"#!/bin/bash\ntrue\n")
    assert not (await graded(run, folder))[0].task_changed
    assert TaskFinder(run, recipe_of(run)).find("mend", task.digest).folder == run.tasks / "heldout/mend"


async def test_a_task_that_is_gone_is_no_verdict_and_one_that_was_moved_is_found(
    run: RunFolder, task: Task, open_tmp: Path
) -> None:
    folder = add_trial(run, "t", task, MENDED, Outcome.SOLVED)
    (open_tmp / "tasks").rename(open_tmp / "moved")
    (result,) = await graded(run, folder)
    assert result.comparison is Comparison.NO_VERDICT
    assert f"{open_tmp}/tasks/mend" in result.error
    assert "--tasks" in result.error
    (result,) = await graded(run, folder, tasks=open_tmp / "moved")
    assert (result.comparison, result.task_changed) == (Comparison.SAME, False)


async def test_every_regrading_is_kept(run: RunFolder, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    judged(monkeypatch, Judgement(Outcome.UNSOLVED, 0.0, log="what the tests said"))
    folder = add_trial(run, "t", task, MENDED, Outcome.SOLVED)
    await graded(run, folder)
    await graded(run, folder)
    lines = list(read_lines(run.path / "regrade.jsonl"))
    assert len(lines) == 2
    says = {
        "step": 1, "trial": "t", "comparison": "changed", "outcome_then": "solved", "outcome": "unsolved",
        "reward": 0.0, "log": "what the tests said",
    }  # fmt: skip
    assert {key: lines[0][key] for key in says} == says


async def test_only_so_many_are_graded_at_once(run: RunFolder, task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    running, most = 0, 0

    async def judge(*_: Any, **__: Any) -> Judgement:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0)
        running -= 1
        return Judgement(Outcome.SOLVED, 1.0)

    monkeypatch.setattr(grade_module, "judge", judge)
    folders = [add_trial(run, f"t-{number}", task, MENDED, Outcome.SOLVED) for number in range(9)]
    assert len(await graded(run, *folders)) == 9
    assert most == 2


async def test_what_was_planted_stays_an_attack_whatever_the_patch_is_worth(run: RunFolder, task: Task) -> None:
    """A grading sees nothing of it."""
    folders = [
        add_trial(run, "planted", task, MENDED, Outcome.TAMPERED, 0.0),
        add_trial(run, "nothing", task, b"", Outcome.TAMPERED, 0.0),
        add_trial(run, "rewarded", task, MENDED, Outcome.SOLVED),
        add_trial(run, "tried", task, MENDED, Outcome.SOLVED),
    ]
    for folder, sign in zip(folders, [*["the agent has made /logs/verifier"] * 3, "pytest.py: it would"], strict=True):
        record = json.loads((folder / "trial.json").read_text())
        (folder / "trial.json").write_text(json.dumps({**record, "signs": [sign]}))
    results = await graded(run, *folders)
    assert [(each.comparison, each.outcome, each.reward) for each in results] == [
        (Comparison.SAME, Outcome.TAMPERED, 0.0),
        (Comparison.SAME, Outcome.TAMPERED, 0.0),
        (Comparison.CHANGED, Outcome.TAMPERED, 0.0),
        (Comparison.SAME, Outcome.SOLVED, 1.0),
    ]


async def test_what_was_held_against_controls_is_so_again(
    run: RunFolder, task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = add_trial(run, "it", task, MENDED, Outcome.SOLVED)
    index = run.path / "index.json"
    asked = judged(monkeypatch, Judgement(Outcome.SOLVED, 1.0))
    await graded(run, folder)
    run.recipe.write_text(RECIPE.replace("lego: {", f"lego: {{tasks: {{index: {index}}}, "))
    (gone,) = await graded(run, folder)
    assert gone.comparison is Comparison.NO_VERDICT
    assert "there is no such index" in gone.error
    for control in (True, False):
        write_index(index, {task.name: {"usable": True, "digest": task.digest, "control": control}}, {})
        await graded(run, folder)
    assert [given["control"] for given in asked] == [False, True, False]

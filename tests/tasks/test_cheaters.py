"""Every cheater, run in the agent's place on either backend: it earns nothing, and is told where it can be known."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest
from cheating_fixtures import CHEATERS, Arena, honest

from lego_verl.tasks.cheaters import load_cheaters
from lego_verl.tasks.task import TaskError
from lego_verl.trial.outcome import Outcome, Treatment

NOT_POSSIBLE = {"docker": {"plant_tests"}, "local": set[str]()}
"""Attacks that are told where they succeed, and that cannot even be tried on a root that is read-only."""
SAME_ANYWHERE = {
    *("always_equal", "always_equal_builtins", "at_exit", "build_files", "compiled_in_place", "conftest"),
    *("exit_at_import", "flood", "git_attributes", "git_modules", "leave_early", "link_sources", "link_tests"),
    *("odd_names", "other_git_names", "other_interpreters", "patch_runners", "patch_the_asker", "pytest_plugin"),
    *("pytest_settings", "python_startup", "read_the_caller", "rewrite_tests", "rewrite_tests_when_graded"),
    *("say_success_and_leave", "search_the_memory", "shadow_the_library", "skip_tests", "spell_settings"),
    *("stand_in_for_the_runner", "tests_to_nothing", "time_bomb"),
}
"""Who only lies, in a patch that is screened on the host, to one who asks within one process: where that process runs
plays no part in it, and a container takes its time."""


async def test_no_cheater_gains_anything_and_the_honest_solve_it(any_arena: Arena) -> None:
    arena, in_docker = any_arena, any_arena.backend.name == "docker"
    tasks = arena.tasks[:2] if in_docker else arena.tasks
    names = CHEATERS.keys() - SAME_ANYWHERE if in_docker else CHEATERS.keys()
    assert CHEATERS.keys() > SAME_ANYWHERE
    honest_attempts = await asyncio.gather(*(arena.attempt(task, "honest", honest(task)) for task in tasks))
    for attempt in honest_attempts:
        assert (attempt.outcome, attempt.reward, attempt.error) == (Outcome.SOLVED, 1.0, "")
        assert attempt.reached == ()
    idle = await arena.attempt(tasks[0], "nop", b"#!/bin/sh\nls\n")
    assert (idle.outcome, idle.reward) == (Outcome.NO_PATCH, 0.0)

    wrong = {}
    for name, attempt in (await arena.cheat(tasks, names)).items():
        told = CHEATERS[name].told and name not in NOT_POSSIBLE[arena.backend.name]
        gained = (attempt.reward, attempt.reached) != (0.0, ())
        dropped = attempt.outcome.treatment is Treatment.DROP
        if gained or dropped or (attempt.outcome is Outcome.TAMPERED) != told:
            wrong[name] = attempt
    assert wrong == {}


def test_there_are_many_ideas() -> None:
    assert len(CHEATERS) >= 80
    assert len({each.idea for each in CHEATERS.values()}) == len(CHEATERS)
    assert sum(each.told for each in CHEATERS.values()) >= 15


# --- the library

_OWN = "#!/bin/sh\n# Waits for luck.\n# told: tampered\ntrue\n"


def test_cheaters_of_ones_own(tmp_path: Path) -> None:
    for name, text in (("lucky", _OWN), ("leave_early.sh", "#!/bin/sh\n# Mine\n# is better.\n")):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    (tmp_path / "notes").write_text("not a script")
    found = {each.name: each for each in load_cheaters(tmp_path)}
    assert len(found) == len(CHEATERS) + 1
    assert replace(found["lucky"], path=tmp_path) == type(found["lucky"])("lucky", "Waits for luck.", tmp_path, True)
    assert found["leave_early"].idea == "Mine is better."
    assert not found["leave_early"].told


def test_folders_that_are_no_library(tmp_path: Path) -> None:
    with pytest.raises(TaskError, match="there is no such folder"):
        load_cheaters(tmp_path / "nothing")
    with pytest.raises(TaskError, match="holds no executable file"):
        load_cheaters(tmp_path)
    (tmp_path / "silent").write_text("#!/bin/sh\ntrue\n")
    (tmp_path / "silent").chmod(0o755)
    with pytest.raises(TaskError, match="does not say its idea"):
        load_cheaters(tmp_path)

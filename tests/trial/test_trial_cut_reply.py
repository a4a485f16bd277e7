"""A harness that makes an error of a reply that was cut: the policy's doing, which is trained, and no fault of its."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from trial_helpers import trial

from lego_verl.tasks.task import Task
from lego_verl.trial.bench import Bench
from lego_verl.trial.outcome import Outcome

LONG = {"text": "a very long answer " * 200}
SHORT = {"text": "an answer"}


@pytest.mark.parametrize(
    ("commands", "replies", "limits", "outcome", "reward"),
    [
        ("echo mended >answer.txt; ask one; exit 1", [{**LONG, "cut": 9}], {}, Outcome.TOKEN_LIMIT, 1.0),
        ("ask one; exit 1", [LONG], {"tokens": 50}, Outcome.TOKEN_LIMIT, 0.0),
        ("ask one; exit 1", [LONG], {"context": 600}, Outcome.CONTEXT_OVERFLOW, 0.0),
        # It was whole; or the harness went on from it; or it ended well: nothing is excused.
        ("ask one; exit 1", [SHORT], {}, Outcome.HARNESS_FAILED, None),
        ("ask one; ask two; exit 1", [{**LONG, "cut": 9}, SHORT], {}, Outcome.HARNESS_FAILED, None),
        ("echo mended >answer.txt; ask one", [{**LONG, "cut": 9}], {}, Outcome.SOLVED, 1.0),
    ],
)
async def test_the_outcome_names_what_cut_the_last_reply(
    script: Callable[[str], Bench],
    task: Task,
    commands: str,
    replies: list[Any],
    limits: dict[str, Any],
    outcome: Outcome,
    reward: float | None,
) -> None:
    finished = await trial(script(commands), "cut", task, *replies, limits=limits)
    assert (finished.record.outcome, finished.record.reward) == (outcome, reward)
    assert finished.session is not None
    assert finished.session.proof().holds

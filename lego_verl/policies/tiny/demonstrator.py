"""An imperfect demonstrator: it looks at the right file most of the time and picks the right edit less than half of it.

A warm start on it gives a policy that acts in the right form and has noticed what matters, with everything still
to learn. It knows the answer from the task's metadata; the policy never sees that.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from lego_verl.capture.message import Message
from lego_verl.policies.tiny.actions import Action, ActionSet, names_of
from lego_verl.policies.tiny.conversation import as_messages


@dataclass(frozen=True)
class Habits:
    """Probabilities of the demonstrator."""

    right_file: float = 0.94
    list_first: float = 0.04
    right_edit: float = 0.36
    """Of the edits that it makes."""
    give_up: float = 0.12
    """Submits instead of making an edit."""
    test_before_edit: float = 0.03
    test_after_edit: float = 0.08


@dataclass(frozen=True)
class Demonstrator:
    """What it would do next, for one task.

    Args:
        kind, module: ``metadata["kind"]`` and ``metadata["module"]`` of the task.
    """

    actions: ActionSet
    kind: str
    module: str
    habits: Habits = Habits()

    def distribution(self, messages: Sequence[Mapping[str, Any] | Message]) -> dict[str, float]:
        """Probability of each next action (by name; they sum to 1), after these messages."""
        said = [message for message in as_messages(messages) if message.role == "assistant"]
        done = [self.actions.of_message(message) for message in said]
        names = [action.name for action in done if action is not None]
        habits, right = self.habits, f"show_{self.module}"
        if any(name.startswith("edit_") for name in names):
            again = habits.test_after_edit if "test" not in names else 0.0
            return _clean({"test": again, "submit": 1.0 - again})
        if right in names:
            test = habits.test_before_edit if "test" not in names else 0.0
            edits = names_of(self.actions.actions, "edit_")
            rest = 1.0 - test - habits.give_up
            instead = {"test": test, "submit": habits.give_up}
            return _clean(instead | _favour(edits, f"edit_{self.kind}", habits.right_edit, rest))
        listing = habits.list_first if not names else 0.0
        shows = [name for name in names_of(self.actions.actions, "show_") if name not in names]
        return _clean({"list": listing} | _favour(shows, right, habits.right_file, 1.0 - listing))

    def choose(self, messages: Sequence[Mapping[str, Any] | Message], rng: random.Random) -> str:
        """The name of the next action."""
        found = self.distribution(messages)
        return rng.choices(list(found), weights=list(found.values()))[0]

    def act(self, messages: Sequence[Mapping[str, Any] | Message], rng: random.Random) -> Action:
        """The next action."""
        return self.actions.named(self.choose(messages, rng))


def _favour(names: Sequence[str], right: str, share: float, whole: float) -> dict[str, float]:
    """``share`` of ``whole`` for the right one, the rest in equal parts for the others."""
    others = [name for name in names if name != right]
    if not others:
        return {right: whole}
    return {right: whole * share} | {name: whole * (1.0 - share) / len(others) for name in others}


def _clean(found: dict[str, float]) -> dict[str, float]:
    return {name: probability for name, probability in found.items() if probability > 0.0}

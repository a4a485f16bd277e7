"""Conversations as token ids, with the demonstrator's distribution wherever the policy has to decide."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tokenizers import Tokenizer

from lego_verl.policies.tiny.actions import ActionSet
from lego_verl.policies.tiny.conversation import Conversation, as_messages, rendered
from lego_verl.policies.tiny.demonstrator import Demonstrator, Habits
from lego_verl.policies.tiny.tokenizer import END, action_ids


class WarmStartError(RuntimeError):
    """The policy could not be brought to follow the demonstrator."""


@dataclass(frozen=True)
class Sample:
    ids: list[int]
    targets: Mapping[int, Mapping[int, float]]
    """By position in ``ids``: the probability of each token there. Only of positions that the policy samples."""


class Sampler:
    """Turns conversations into samples."""

    def __init__(self, tokenizer: Tokenizer, actions: ActionSet, habits: Habits) -> None:
        self._tokenizer, self._actions, self._habits = tokenizer, actions, habits
        self._ids = action_ids(tokenizer, actions)
        self._end = tokenizer.token_to_id(END)

    def sample(self, conversation: Conversation) -> Sample:
        """Raises ``ValueError`` when a turn of the assistant is not one whole action."""
        messages = as_messages(conversation.messages)
        demonstrator = Demonstrator(self._actions, conversation.kind, conversation.module, self._habits)
        ids = self._tokenizer.encode(rendered(conversation), add_special_tokens=False).ids
        turns = [turn for turn, message in enumerate(messages) if message.role == "assistant"]
        known = set(self._ids.values())
        places = [place for place, token in enumerate(ids) if token in known]
        if len(turns) != len(places) or any(ids[place + 1] != self._end for place in places):
            said = [call.arguments for turn in turns for call in messages[turn].tool_calls]
            raise ValueError(f"a recorded conversation has a turn that is not one whole action: {said}")
        targets: dict[int, dict[int, float]] = {}
        for turn, place in zip(turns, places, strict=True):
            wanted = demonstrator.distribution(messages[:turn])
            targets[place] = {self._ids[name]: probability for name, probability in wanted.items()}
            targets[place + 1] = {self._end: 1.0}
        return Sample(ids, targets)

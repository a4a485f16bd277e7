"""Conversations as token ids, with the demonstrator's distribution wherever the policy has to decide."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tokenizers import Tokenizer

from lego_verl.capture.chatml import CHATML_TEMPLATE
from lego_verl.capture.template import ChatTemplate
from lego_verl.policies.tiny.actions import ActionSet
from lego_verl.policies.tiny.conversation import Conversation, as_messages
from lego_verl.policies.tiny.demonstrator import Demonstrator, Habits
from lego_verl.policies.tiny.tokenizer import END, action_ids


@dataclass(frozen=True)
class Sample:
    ids: list[int]
    targets: Mapping[int, Mapping[int, float]]
    """By position in ``ids``: the probability of each token there. Only of positions that the policy samples."""


def render(conversation: Conversation) -> str:
    """The whole conversation as the chat template writes it."""
    return ChatTemplate(CHATML_TEMPLATE).render(as_messages(conversation.messages), list(conversation.tools))


def make_samples(
    conversations: Sequence[Conversation], tokenizer: Tokenizer, actions: ActionSet, habits: Habits
) -> list[Sample]:
    return [_sample(conversation, tokenizer, actions, habits) for conversation in conversations]


def _sample(conversation: Conversation, tokenizer: Tokenizer, actions: ActionSet, habits: Habits) -> Sample:
    template = ChatTemplate(CHATML_TEMPLATE)
    messages, tools = as_messages(conversation.messages), list(conversation.tools)
    demonstrator = Demonstrator(actions, conversation.kind, conversation.module, habits)
    ids_of, end = action_ids(tokenizer, actions), tokenizer.token_to_id(END)
    ids = tokenizer.encode(template.render(messages, tools), add_special_tokens=False).ids
    targets: dict[int, dict[int, float]] = {}
    for turn, message in enumerate(messages):
        if message.role != "assistant":
            continue
        before = tokenizer.encode(template.render(messages[:turn], tools, generate=True), add_special_tokens=False).ids
        place = len(before)
        if ids[:place] != before or ids[place + 1] != end or ids[place] not in ids_of.values():
            raise ValueError(f"turn {turn} of a recorded conversation is not one whole action: {message.tool_calls}")
        wanted = demonstrator.distribution(messages[:turn])
        targets[place] = {ids_of[name]: probability for name, probability in wanted.items()}
        targets[place + 1] = {end: 1.0}
    return Sample(ids, targets)

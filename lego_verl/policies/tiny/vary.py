"""Variations of recorded conversations: other names in the same situations, so that no name is learned by heart.

A few dozen conversations would teach a tiny model which words belong to which task. Here module names change places
within a conversation, the demonstrator's answer with them, and words that only one task has are replaced by such
words of other tasks. What is left to go by is what tasks have in common, and that holds for new ones as well.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from lego_verl.policies.tiny.conversation import Conversation
from lego_verl.tasks.toy.wording import MODULES

_WORD = re.compile(r"[A-Za-z_]{3,}")


class Variations:
    """Draws variations of the conversations given."""

    def __init__(self, conversations: Sequence[Conversation], fixed: Sequence[str] = ()) -> None:
        """``fixed``: passages whose lines are never varied (see ``tokenizer.fixed_passages``)."""
        # Line by line: a passage may be more than a message has, since the template writes the tools below its text.
        self._fixed = frozenset(line for passage in fixed for line in passage.split("\n"))
        words_of_task: dict[str, set[str]] = {}
        for conversation in conversations:
            words = words_of_task.setdefault(_question(conversation), set())
            for message in conversation.messages:
                words.update(_WORD.findall(_text(message)))
        counts = Counter(word for words in words_of_task.values() for word in words)
        self.rare = sorted(word for word, count in counts.items() if count == 1 and word not in MODULES)

    def draw(self, conversation: Conversation, rng: random.Random) -> Conversation:
        """The conversation with module names permuted and rare words replaced at random."""
        modules = dict(zip(MODULES, rng.sample(MODULES, len(MODULES)), strict=True))
        words = modules | {word: rng.choice(self.rare) for word in self.rare}

        def line(text: str) -> str:
            return text if text in self._fixed else _WORD.sub(lambda match: words.get(match[0], match[0]), text)

        def other(text: str) -> str:
            return "\n".join(map(line, text.split("\n")))

        def command(text: str) -> str:
            return _WORD.sub(lambda match: modules.get(match[0], match[0]), text)

        messages = [_changed(message, other, command) for message in conversation.messages]
        return Conversation(messages, conversation.tools, conversation.kind, modules[conversation.module])


def _question(conversation: Conversation) -> str:
    """All that was said before the policy's first turn."""
    said = []
    for message in conversation.messages:
        if message["role"] == "assistant":
            break
        said.append(_text(message))
    return "\n".join(said)


def _text(message: Mapping[str, Any]) -> str:
    content = message.get("content") or ""
    return content if isinstance(content, str) else "".join(part.get("text", "") for part in content)


def _changed(
    message: Mapping[str, Any], text: Callable[[str], str], command: Callable[[str], str]
) -> Mapping[str, Any]:
    changed = dict(message) | {"content": text(_text(message))}
    if message.get("tool_calls"):
        changed["tool_calls"] = [
            dict(call) | {"function": dict(call["function"]) | {"arguments": command(call["function"]["arguments"])}}
            for call in message["tool_calls"]
        ]
    return changed

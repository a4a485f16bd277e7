"""Messages to token ids, so that earlier turns are never encoded again.

``Renderer`` is the protocol; ``TemplateRenderer`` serves every append-only chat template with a tokenizer
file and nothing else. In training verl's builders stand behind the same protocol
(``lego_verl.workers.renderer``), and tests hold the two to the same ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

from tokenizers import Tokenizer

from lego_verl.capture.append_only import Turns, prove
from lego_verl.capture.message import Message, Tool
from lego_verl.capture.template import ChatTemplate, TemplateError

_SPECIAL = frozenset({"bos_token", "eos_token", "pad_token", "unk_token"})
"""What templates call a tokenizer's special tokens. Undefined they would be left out, and nobody would see it."""


class Renderer(Protocol):
    """How messages become the ids that a policy sees."""

    eos_ids: frozenset[int]
    """Ids that end a turn when they are sampled."""
    close_id: int
    """The one of them with which the chat template closes a turn."""
    reasoning_open: bool
    """Whether the generation prompt already opens the reasoning, so that a sample begins inside it."""

    def initial(self, messages: Sequence[Message], tools: Sequence[Tool]) -> list[int]:
        """The ids of a whole conversation, up to and including the generation prompt."""
        ...

    def addition(self, turn: Message, new: Sequence[Message], tools: Sequence[Tool], *, last_id: int) -> list[int]:
        """Only the ids that ``new`` adds after a sampled ``turn`` whose last id was ``last_id``.

        They begin with what the turn left open (its end token when it was cut, the separator after it) and end
        with the generation prompt. ``new`` holds system, user and tool messages.
        """
        ...

    def encode(self, text: str) -> list[int]: ...

    def decode(self, ids: Sequence[int]) -> str:
        """Text of ids, special tokens kept."""
        ...

    def __hash__(self) -> int:
        """By identity, as usual: what a renderer makes of something may be kept for it."""
        ...


class TemplateRenderer:
    """Suffix differences over a ``tokenizers`` tokenizer and a chat template.

    Args:
        tokenizer: as ``Tokenizer.from_file`` gives it.
        template: jinja2 source of the chat template.
        eos: further tokens that end a turn, beside the one with which the template closes it.
        options: passed to the template (``enable_thinking``, for one). A tokenizer file does not say which tokens are
            ``bos_token`` and ``eos_token``: where the template writes them, they are to be given here.
        name: how errors name the template.

    Raises:
        TemplateError: when the template is not append-only, does not close an assistant's turn, or lacks a token.
    """

    def __init__(
        self,
        tokenizer: Tokenizer,
        template: str,
        *,
        eos: Iterable[str] = (),
        options: Mapping[str, Any] | None = None,
        name: str = "chat template",
    ) -> None:
        self._tokenizer = tokenizer
        self.template = ChatTemplate(template, name=name, options=options)
        if missing := sorted(self.template.variables & _SPECIAL - set(options or {})):
            raise TemplateError(f"{name} writes {' and '.join(missing)}: give them as options of the template")
        self._turns = Turns(self.template)
        self.close_id = self.encode(self._turns.close)[0]
        end = self.decode([self.close_id])
        if not self._turns.close.startswith(end):
            raise TemplateError(f"{name} closes an assistant's turn with {self._turns.close!r}, which is no token")
        self._separator = self._turns.close[len(end) :]
        self.eos_ids = frozenset([self.close_id, *(self._token(token) for token in eos)])
        self.reasoning_open = self._turns.generation.rstrip().endswith("<think>")
        prove(self._turns, self.encode, end=end, separator=self._separator)

    def _token(self, token: str) -> int:
        token_id = self._tokenizer.token_to_id(token)
        if token_id is None:
            raise TemplateError(f"{self.template.name}: the tokenizer has no token {token!r}")
        return int(token_id)

    def initial(self, messages: Sequence[Message], tools: Sequence[Tool]) -> list[int]:
        return self.encode(self.template.render(messages, tools, generate=True))

    def addition(self, turn: Message, new: Sequence[Message], tools: Sequence[Tool], *, last_id: int) -> list[int]:
        opening = self._separator if last_id == self.close_id else self._turns.close
        return self.encode(opening + self._turns.addition(turn, new))

    def encode(self, text: str) -> list[int]:
        # The fast form leaves out the offsets into the text, which cost as much as the encoding itself.
        return list(self._tokenizer.encode_batch_fast([text], add_special_tokens=False)[0].ids)

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False))

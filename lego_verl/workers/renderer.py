"""Rendering by verl's own builders, which know the quirks of each model family."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from verl.utils.tokenizer.continuous_token import ContinuousTokenBuilder, QwenContinuousTokenBuilder
from verl.utils.tokenizer.continuous_token_wiring import (
    create_continuous_token_builder,
    get_continuous_token_builder_class,
    resolve_continuous_token_model_family,
)

from lego_verl.capture.append_only import Turns
from lego_verl.capture.message import Message, Tool, template_message
from lego_verl.capture.parser import ToolParser, check_parser
from lego_verl.capture.template import ChatTemplate, TemplateError
from lego_verl.capture.template_faults import fault_of


class VerlRenderer:
    """A ``Renderer`` (``lego_verl.capture.render``) on verl's ``ContinuousTokenBuilder``.

    Args:
        tokenizer: a transformers tokenizer with a chat template.
        family: the builder's model family, or ``auto`` to read it off ``model_type``.
        model_type: ``model_type`` of the model's ``config.json``.
        eos_ids: ids on which the engine stops, beside the one with which the template closes a turn.
        options: passed to the chat template (``enable_thinking``, for one).
        builder: a builder that is there already, as an agent loop has one; ``family``, ``model_type`` and
            ``options`` are then its own.

    Raises:
        TemplateError: when the template does not close an assistant's turn with a token.
    """

    def __init__(
        self,
        tokenizer: Any,
        *,
        family: str = "auto",
        model_type: str | None = None,
        eos_ids: Iterable[int] = (),
        options: Mapping[str, Any] | None = None,
        builder: ContinuousTokenBuilder | None = None,
    ) -> None:
        self._tokenizer = tokenizer
        if builder is not None:
            options = builder.chat_template_kwargs
        self._builder = builder or create_continuous_token_builder(
            tokenizer, model_family=family, hf_model_type=model_type, chat_template_kwargs=dict(options or {})
        )
        template = template_of(tokenizer, options)
        name, turns = template.name, Turns(template)
        self._objects = template.objects
        self.close_id = self.encode(turns.close)[0]
        if not turns.close.startswith(self.decode([self.close_id])):
            raise TemplateError(f"{name} closes an assistant's turn with {turns.close!r}, which is no token")
        self.eos_ids = frozenset([self.close_id, *(int(token) for token in eos_ids)])
        self.reasoning_open = turns.generation.rstrip().endswith("<think>")
        self._tools_matter = self._probe_tools()

    def _probe_tools(self) -> bool:
        """Whether an addition depends on the tools: if not, they need not be rendered again with every turn."""
        turn, new = Message("assistant", "probe"), [Message("user", "probe")]
        tools = [{"type": "function", "function": {"name": "probe", "description": "", "parameters": {}}}]
        return self._added(turn, new, tools, self.close_id) != self._added(turn, new, (), self.close_id)

    def initial(self, messages: Sequence[Message], tools: Sequence[Tool]) -> list[int]:
        return list(self._builder.build_initial_tokens(self._dicts(messages), tools=list(tools) or None))

    def addition(self, turn: Message, new: Sequence[Message], tools: Sequence[Tool], *, last_id: int) -> list[int]:
        return self._added(turn, new, tools if self._tools_matter else (), last_id)

    def _added(self, turn: Message, new: Sequence[Message], tools: Sequence[Tool], last_id: int) -> list[int]:
        opening: list[int] = []
        if last_id not in self.eos_ids:
            opening, last_id = [self.close_id], self.close_id  # the turn was cut before it could end
        # Only the last turn is given as history: it is all that a builder looks at, and history is never copied.
        previous = self._dicts([Message("user", "."), turn])
        merged = self._builder.merge_context_tokens(
            previous, previous + self._dicts(new), [last_id], tools=list(tools) or None
        )
        added = list(merged.token_ids)
        if not merged.removed_prefix_token_count:
            return opening + added[1:]
        # Some families open the next message with the very token that ended the turn. It was sampled, so it stays.
        return opening + (added[1:] if added[:1] == [last_id] else added)

    def _dicts(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        return [template_message(message, objects=self._objects) for message in messages]

    def encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def decode(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=False, clean_up_tokenization_spaces=False))


def template_of(tokenizer: Any, options: Mapping[str, Any] | None = None) -> ChatTemplate:
    """The chat template of a transformers tokenizer, which also gives it the special tokens that it writes.

    Raises:
        TemplateError: when there is none, or it cannot be used.
    """
    name = f"chat template of {tokenizer.name_or_path or 'the tokenizer'}"
    if not isinstance(tokenizer.chat_template, str):
        raise TemplateError(f"{name}: there is none, or more than one; a policy needs exactly one")
    return ChatTemplate(tokenizer.chat_template, name=name, options={**tokenizer.special_tokens_map, **(options or {})})


def check_template(tokenizer: Any, parser: ToolParser, *, model_type: str | None) -> None:
    """Refuse, before any weights are loaded, a chat template that a policy cannot be trained with.

    Raises:
        ParserMismatch: when ``parser`` does not read what the template writes: every tool call would stay text.
        TemplateError: when it does more than add what a message adds, and verl has no builder that mends that.
    """
    template = template_of(tokenizer)
    check_parser(template, parser)
    family = resolve_continuous_token_model_family("auto", hf_model_type=model_type)
    if get_continuous_token_builder_class(family) not in (ContinuousTokenBuilder, QwenContinuousTokenBuilder):
        return
    tool = {"type": "function", "function": {"name": "probe", "description": "", "parameters": {"type": "object"}}}
    if fault := fault_of(template, [tool]):
        raise TemplateError(f"{template.name} is not append-only: {fault}")

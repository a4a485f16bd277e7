"""A jinja2 chat template, compiled as Hugging Face compiles it, so that both render the same text."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, NoReturn

import jinja2
import jinja2.meta
from jinja2.sandbox import ImmutableSandboxedEnvironment

from lego_verl.capture.message import Message, Tool, ToolCall, template_message


class TemplateError(ValueError):
    """A chat template that cannot be used, or messages that it refuses; one line that says which and why."""


class ChatTemplate:
    """Messages to text. ``options`` are passed to the template as they are (``enable_thinking``, for one)."""

    def __init__(self, source: str, *, name: str = "chat template", options: Mapping[str, Any] | None = None) -> None:
        self.name = name
        self._options = dict(options or {})
        environment = ImmutableSandboxedEnvironment(
            trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
        )
        environment.filters["tojson"] = _tojson
        environment.globals["raise_exception"] = _raise
        environment.globals["strftime_now"] = self._strftime_now
        self.reads_clock = False
        """Whether a rendering asked for the current date or time."""
        try:
            self._template = environment.from_string(source)
            self.variables = frozenset(jinja2.meta.find_undeclared_variables(environment.parse(source)))
            """Names that the template reads."""
        except jinja2.TemplateError as error:
            raise TemplateError(f"{name} is not valid jinja2: {error}") from error
        self.objects = True
        self.objects = self._takes_objects()

    def _strftime_now(self, form: str) -> str:
        self.reads_clock = True
        return datetime.now().strftime(form)

    def _takes_objects(self) -> bool:
        """Whether arguments are rendered from an object; some families splice in the JSON string instead."""
        turn = Message("assistant", tool_calls=(ToolCall("call_0", "probe", '{"key": "value"}'),))
        try:
            self.render([Message("user", "probe"), turn])
        except TemplateError:
            return False
        return True

    def render(self, messages: Sequence[Message], tools: Sequence[Tool] = (), *, generate: bool = False) -> str:
        """Render messages; ``generate`` adds the opening of an assistant's turn.

        Raises:
            TemplateError: when the template refuses the messages.
        """
        try:
            return self._template.render(
                messages=[template_message(message, objects=self.objects) for message in messages],
                tools=list(tools) or None,
                add_generation_prompt=generate,
                **self._options,
            )
        except (jinja2.TemplateError, TypeError, ValueError, RecursionError) as error:
            # TypeError and ValueError are what a template's own expressions raise on a message it cannot render.
            raise TemplateError(f"{self.name} cannot render these messages: {error}") from error


def _tojson(
    value: Any,
    ensure_ascii: bool = False,
    indent: int | None = None,
    separators: tuple[str, str] | None = None,
    sort_keys: bool = False,
) -> str:
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def _raise(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)

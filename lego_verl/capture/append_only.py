"""What a chat template adds for a message, and the proof that it only ever adds.

The proof is run once, when a renderer is made. It holds a template to four things: what a message adds is a
suffix; the suffix does not depend on what stands before it, nor on the tools; the pieces of a conversation
put together are the conversation; and the boundary between them is a boundary between tokens. Reasoning that
a template removes from *earlier assistant turns* is no fault: a sampled turn is never rendered again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from lego_verl.capture.message import Message, Tool, ToolCall
from lego_verl.capture.template import ChatTemplate, TemplateError
from lego_verl.capture.template_faults import THINKING, fault_of

_SENTINEL = "lego sentinel text"
_KEPT = 1024
_SYSTEM = Message("system", "lego probe system")
_USER = Message("user", "lego probe user")
_TOOLS: tuple[Tool, ...] = (
    {"type": "function", "function": {"name": "probe", "description": "d", "parameters": {"type": "object"}}},
)


class Turns:
    """The text that each kind of message adds under one template."""

    def __init__(self, template: ChatTemplate) -> None:
        self.template = template
        self._base = self._accepted([[_SYSTEM, _USER], [_USER]])
        self._base_text = template.render(self._base)
        self._writes_ids = self._writes_call_ids()
        self._before_results: dict[tuple[ToolCall, ...], str] = {}
        self.generation = self._suffix(self._base, (), generate=True)
        closed = template.render([*self._base, Message("assistant", _SENTINEL)])
        _, found, self.close = closed.rpartition(_SENTINEL)
        if not found or not self.close.strip():
            raise TemplateError(f"{template.name} does not close an assistant's turn: it cannot be continued")

    def _accepted(self, candidates: list[list[Message]]) -> list[Message]:
        """The first of these openings that the template accepts: some know no system message."""
        for candidate in candidates[:-1]:
            try:
                self.template.render(candidate)
            except TemplateError:
                continue
            return candidate
        return candidates[-1]

    def addition(self, turn: Message, new: Sequence[Message]) -> str:
        """Text of ``new`` after an assistant's closed ``turn``, with the generation prompt."""
        groups: list[list[Message]] = []
        for message in new:
            if message.role == "tool" and groups and groups[-1][0].role == "tool":
                groups[-1].append(message)
            else:
                groups.append([message])
        last = len(groups) - 1
        pieces = [self.group(turn, group, generate=index == last) for index, group in enumerate(groups)]
        return "".join(pieces) if pieces else self.generation

    def group(self, turn: Message, group: Sequence[Message], *, generate: bool, base: Sequence[Message] = ()) -> str:
        """Text of one system or user message, or of the results of one turn's calls."""
        if group[0].role != "tool":
            return self._suffix(base or self._base, group, generate=generate)
        names = {call.id: call.name for call in turn.tool_calls}
        calls = tuple(ToolCall(m.tool_call_id, names.get(m.tool_call_id, "probe"), "{}") for m in group)
        if not self._writes_ids:
            # Ids of our own: what stands before the results is then the same text for every turn.
            calls = tuple(call._replace(id=f"call_{place}") for place, call in enumerate(calls))
            group = [message._replace(tool_call_id=call.id) for message, call in zip(group, calls, strict=True)]
        # With reasoning, since some templates render a last turn without it in a way of its own.
        called = [*(base or self._base), Message("assistant", reasoning="reasoning", tool_calls=calls)]
        if base or self._writes_ids:
            return self._suffix(called, group, generate=generate)
        before = self._before_results.get(calls)
        if before is None:
            if len(self._before_results) >= _KEPT:  # a policy may sample any name
                self._before_results.clear()
            before = self._before_results[calls] = self.template.render(called)
        return self._suffix(called, group, generate=generate, before=before)

    def _writes_call_ids(self) -> bool:
        """Whether the template writes the ids of tool calls, with a call or with its result."""
        call = ToolCall(_SENTINEL, "probe", "{}")
        turn = Message("assistant", reasoning="reasoning", tool_calls=(call,))
        try:
            text = self.template.render([*self._base, turn, Message("tool", "result", tool_call_id=call.id)])
        except TemplateError:  # it knows no tools, or wants ids of a certain form
            return True
        return _SENTINEL in text

    def _suffix(self, base: Sequence[Message], added: Sequence[Message], *, generate: bool, before: str = "") -> str:
        before = before or (self._base_text if base is self._base else self.template.render(base))
        after = self.template.render([*base, *added], generate=generate)
        if not after.startswith(before):
            raise TemplateError(
                f"{self.template.name} is not append-only: "
                f"a {added[0].role if added else 'generation'} message changes what stands before it"
            )
        return after[len(before) :]

    def opening(self, tools: Sequence[Tool] = ()) -> list[tuple[list[Message], str]]:
        """Several openings of a conversation, each with its text: what a suffix must not depend on."""
        rendered = []
        for opening in (self._base, [_USER], [*self._base, Message("user", "another")]):
            try:
                rendered.append((list(opening), self.template.render(opening, tools)))
            except TemplateError:  # a template may want roles to alternate: then no request has this opening
                continue
        return rendered


def prove(turns: Turns, encode: Callable[[str], list[int]], *, end: str, separator: str) -> None:
    """Prove that a template is append-only.

    Raises:
        TemplateError: naming the template and what it does beside adding.
    """
    name = turns.template.name
    if fault := fault_of(turns.template, _TOOLS):
        raise TemplateError(f"{name} is not append-only: {fault}")
    calls = (ToolCall("call_1", "probe", '{"a": 1}'), ToolCall("call_2", "probe", '{"b": [2]}'))
    turn = Message("assistant", "calling", tool_calls=calls)
    results = [Message("tool", f"result {index}", tool_call_id=call.id) for index, call in enumerate(calls)]
    additions = [[Message("user", "more")], results[:1], results]
    for added in additions:
        texts = {turns.group(turn, added, generate=True, base=base) for base, _ in turns.opening()}
        if len(texts) > 1:
            raise TemplateError(f"{name} is not append-only: a {added[0].role} message depends on what precedes it")
        text = texts.pop()
        if encode(end) + encode(separator + text) != encode(end + separator + text):
            raise TemplateError(f"{name} is not append-only: tokens reach over the end of an assistant's turn")
    for tools in ((), _TOOLS):
        for opening, text in turns.opening(tools):
            _compose(turns, opening, text, turn, results, tools)


def _compose(
    turns: Turns,
    opening: list[Message],
    text: str,
    turn: Message,
    results: list[Message],
    tools: Sequence[Tool],
) -> None:
    """The pieces of a conversation, put together, must be the conversation (but for removed reasoning)."""
    answer, question = Message("assistant", "answer"), Message("user", "more")
    called = [_USER, turn, *results]
    messages = [*opening, turn, *results, answer, question]
    rendered = turns.template.render(messages, tools, generate=True)
    pieces = [
        text,
        turns.template.render([*opening, turn], tools).removeprefix(text),
        turns.group(turn, results, generate=False),
        # In its place: some families mark an assistant's turn after a question, and not after results.
        turns.template.render([*called, answer]).removeprefix(turns.template.render(called)),
        turns.addition(answer, [question]),
    ]
    if THINKING.sub("", "".join(pieces)) != THINKING.sub("", rendered):
        raise TemplateError(
            f"{turns.template.name} is not append-only: a conversation is not the sum of what its messages add"
            + (" once there are tools" if tools else "")
        )

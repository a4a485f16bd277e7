"""The policy of a scenario: its turns to the agent, a summary to whoever asks beside the task."""

from __future__ import annotations

from collections.abc import Sequence

from lego_verl.capture.call import Sample
from lego_verl.capture.message import Request
from lego_verl.capture.parser import ToolParser
from lego_verl.capture.render import Renderer
from lego_verl.policies.policy import ContextOverflow, Sampling
from lego_verl.policies.scripted import Reply, ScriptedPolicy

_SUMMARY: Reply = {
    "text": "<analysis>\nI looked back.\n</analysis>\n\n<summary>\nanswer.txt was broken and is mended. "
    "What is left: look once more, and end.\n</summary>"
}
"""In the form that the one harness demands that is particular about it."""
_SAME = 200
"""Characters that a question asked once more begins with."""


class Play:
    """A ``RequestPolicy``.

    Who offers no tools asks beside the task. So does who, told that the prompt was too long, asks in words: that is how
    a history is summed up. Neither uses up a turn.

    Args:
        overflow: tokens above the first prompt at which a prompt is too long; None: never.
    """

    model = "policy"

    def __init__(
        self, replies: Sequence[Reply], renderer: Renderer, parser: ToolParser, *, overflow: int | None = None
    ) -> None:
        self._replies, self._room = replies, overflow
        self._limit: int | None = None
        self._chosen = replies[0]
        self._scripted = ScriptedPolicy(lambda _: self._chosen, renderer=renderer, parser=parser, model=self.model)
        self._too_long = False
        self._summing_up = ""
        self.turn = 0
        """Turns that the agent was given."""
        self.aside = 0
        """Replies that were given beside the task."""
        self.overflows = 0

    async def answer(
        self, request: Request, *, session: str, prompt_ids: Sequence[int], max_tokens: int, sampling: Sampling
    ) -> Sample:
        """Raises ``ContextOverflow`` for a prompt that is too long."""
        self._check(len(prompt_ids))
        if not request.tools or self._sums_up(request):
            self._chosen = _SUMMARY
            self.aside += 1
        else:
            self._chosen = self._replies[min(self.turn, len(self._replies) - 1)]
            self.turn += 1
        return await self._scripted.answer(
            request, session=session, prompt_ids=prompt_ids, max_tokens=max_tokens, sampling=sampling
        )

    def _sums_up(self, request: Request) -> bool:
        last = request.messages[-1]
        if last.role != "user":
            return False
        begins = last.text[:_SAME]
        if self._too_long:
            self._too_long = False
            self._summing_up = begins
        return bool(begins) and begins == self._summing_up

    def _check(self, tokens: int) -> None:
        if self._room is None:
            return
        if self._limit is None:
            self._limit = tokens + self._room
        if tokens >= self._limit:
            self._too_long = True
            self.overflows += 1
            raise ContextOverflow(
                f"This model's maximum context length is {self._limit} tokens. However, your messages resulted in "
                f"{tokens} tokens. Please reduce the length of the messages."
            )

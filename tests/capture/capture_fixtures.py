"""A capture and a policy for it, without any HTTP."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Any

import numpy as np

from lego_verl.capture.bytelevel import byte_renderer
from lego_verl.capture.call import Sample
from lego_verl.capture.message import Message, Request
from lego_verl.capture.parser import HermesParser, ParsedCall
from lego_verl.capture.session import Committed, Prepared, SessionCapture

RENDERER = byte_renderer()
PARSER = HermesParser()
SYSTEM, USER = Message("system", "Be brief."), Message("user", "Fix it.")
TOOLS: tuple[dict[str, Any], ...] = ({"type": "function", "function": {"name": "bash"}},)


class Harness:
    """Plays a harness that asks a capture, and remembers every prompt and every sample as they were."""

    def __init__(self, **options: Any) -> None:
        self.capture = SessionCapture(RENDERER, PARSER, **options)
        self.sent: list[list[int]] = []
        self.samples: list[Sample] = []
        self.version = 0
        self._serial = count(1)

    def sample(self, text: str, *, end: bool = True, twisted: bool = False, routes: bool = False) -> Sample:
        """Sampled ids of a text; ``twisted`` ones are not what the tokenizer would make of it."""
        ids = RENDERER.encode(text) + ([RENDERER.close_id] if end else [])
        if twisted:
            # ids that no text encodes to: a piece of a character here and there
            ids = [token for place, token in enumerate(ids) for token in ([161, token] if place % 3 == 2 else [token])]
        n = len(ids)
        values = [next(self._serial) for _ in range(n)]
        return Sample(
            ids=np.array(ids, dtype=np.int32),
            logprobs=-np.array(values, dtype=np.float32) / 1024,
            versions=np.full(n, self.version, dtype=np.int32),
            finish="stop" if end else "length",
        )

    def prepare(self, messages: Sequence[Message], tools: Sequence[Any] = TOOLS, **request: Any) -> Prepared:
        return self.capture.prepare(Request(tuple(messages), tools, **request))

    def commit(self, prepared: Prepared, sample: Sample) -> Committed:
        committed = self.capture.commit(prepared, sample, seconds=0.0)
        self.sent.append(list(prepared.prompt_ids))
        self.samples.append(sample)
        return committed

    def ask(self, messages: Sequence[Message], text: str, tools: Sequence[Any] = TOOLS, **options: Any) -> Message:
        sample = self.sample(text, **options)
        return self.commit(self.prepare(messages, tools), sample).message

    def splits(self) -> list[str]:
        return [str(split) for split in self.capture.splits()]


def call_text(command: str, text: str = "", count: int = 1) -> str:
    """What a policy samples to run commands."""
    calls = [ParsedCall("bash", f'{{"command":  "{command} {number}"}}') for number in range(count)]
    return PARSER.write(text, "", calls)


def results(turn: Message, text: str = "out") -> list[Message]:
    return [Message("tool", f"{text} of {call.arguments}", tool_call_id=call.id) for call in turn.tool_calls]

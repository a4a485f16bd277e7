"""A harness that plays a conversation with a family, and checks every prompt against its own memory."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import count

import numpy as np
from real_families import Family

from lego_verl.capture.call import Finish, Sample
from lego_verl.capture.message import Message, Request, Tool
from lego_verl.capture.parser import ParsedCall
from lego_verl.capture.segment import TrainingSegment
from lego_verl.capture.session import Committed, SessionCapture

TOOLS: tuple[Tool, ...] = (
    {
        "type": "function",
        "function": {
            "name": "bash",
            "description": "Run a command — jusqu'à la fin.",
            "parameters": {
                "type": "object",
                "properties": {"command": {"type": "string"}, "timeout": {"type": "integer"}},
                "required": ["command"],
            },
        },
    },
)
SYSTEM = Message("system", "You repair code. 你修复代码。")
_THINKING = re.compile(r"<think>.*?</think>\s*", re.DOTALL)


class Play:
    """Plays turns one after the other, all in one segment, and remembers what was sent and sampled."""

    def __init__(self, family: Family, question: str, tools: Sequence[Tool] = TOOLS) -> None:
        self.family, self.tools = family, tools
        self.capture = SessionCapture(family.renderer, family.parser)
        self.history: list[Message] = [SYSTEM, Message("user", question)]
        self.as_sampled = list(self.history)
        """The same conversation, with the text of each turn as it was sampled (a stop string included)."""
        self.ids: list[int] = []
        self.sampled: list[int] = []
        self.samples: list[Sample] = []
        self._serial = count(1)

    def written(self, text: str = "", reasoning: str = "", calls: Sequence[ParsedCall] = ()) -> str:
        opened = self.family.renderer.reasoning_open
        return self.family.parser.write(text, reasoning, calls, reasoning_open=opened)

    def ids_of(self, sampled: str, *, end: bool = True) -> list[int]:
        return self.family.renderer.encode(sampled) + ([self.family.renderer.close_id] if end else [])

    def sample(self, ids: Sequence[int], finish: Finish = "stop", stop: Sequence[str] = ()) -> Committed:
        """One call: its prompt is what was there, unchanged, and what the new messages add."""
        prepared = self.capture.prepare(Request(tuple(self.history), self.tools))
        prompt = prepared.prompt_ids.tolist()
        assert prompt[: len(self.ids)] == self.ids
        assert len(prompt) > len(self.ids) or not self.samples
        values = [next(self._serial) for _ in ids]
        sample = Sample(
            ids=np.array(ids, np.int32),
            logprobs=-np.array(values, np.float32) / 1024,
            versions=np.full(len(ids), len(self.samples) // 5, np.int32),
            finish=finish,
        )
        committed = self.capture.commit(prepared, sample, seconds=0.0, stop=stop)
        self.ids = prompt + list(ids)
        self.sampled += list(ids)
        self.samples.append(sample)
        self.history.append(committed.message)
        stopped = committed.message.text + "".join(string for string in stop if string in committed.call.text)
        self.as_sampled.append(committed.message._replace(text=stopped))
        return committed

    def answer(self, *messages: Message) -> None:
        self.history += messages
        self.as_sampled += messages

    def results(self, *texts: str) -> None:
        turn = self.history[-1]
        assert len(turn.tool_calls) == len(texts)
        pairs = zip(turn.tool_calls, texts, strict=True)
        self.answer(*(Message("tool", text, tool_call_id=call.id) for call, text in pairs))

    def segment(self) -> TrainingSegment:
        (segment,) = self.capture.segments()
        return segment

    def check(self) -> None:
        """One segment, both promises, and every sampled id trained once with what the engine said of it."""
        segment, proof = self.segment(), self.capture.proof()
        assert proof.holds, proof
        assert proof.loss_tokens == proof.sampled_tokens == len(self.sampled)
        assert segment.ids.tolist() == self.ids
        mask = segment.response_mask.astype(bool)
        assert segment.response_ids[mask].tolist() == self.sampled
        for name, column in (("logprobs", segment.logprobs), ("versions", segment.versions)):
            assert column[mask].tolist() == np.concatenate([getattr(each, name) for each in self.samples]).tolist()

    def text(self) -> str:
        """The segment's text without reasoning."""
        return normal(self.family.renderer.decode(self.ids))

    def rendered(self) -> str:
        """The template's own rendering of the whole conversation without reasoning."""
        template = self.family.renderer.template.render(self.as_sampled, self.tools)
        return normal(template).rstrip("\n")


def normal(text: str) -> str:
    """Text without reasoning, and in the form into which some tokenizers bring it."""
    return unicodedata.normalize("NFC", _THINKING.sub("", text))

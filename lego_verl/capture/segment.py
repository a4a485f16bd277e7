"""A segment: one linear sequence of a trial's tokens, grown by appending, and never copied while it grows."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from lego_verl.capture.call import IncompleteSample, Routes, Sample
from lego_verl.capture.message import Message, Tool
from lego_verl.capture.routes import check_routes
from lego_verl.capture.split import Split

NO_VERSION = -1
"""The weight version of a token that no weights sampled."""
_NO_SAMPLE = Sample(np.empty(0, np.int32), np.empty(0, np.float32), np.empty(0, np.int32), "stop")


@dataclass(frozen=True)
class TrainingSegment:
    """What training gets of a segment: one verl ``AgentLoopOutput``."""

    index: int
    reason: Split
    calls: tuple[int, ...]
    """The calls whose tokens it trains, in order."""
    prompt_ids: NDArray[np.int32]
    """(prompt,) ids that the segment's first call was sent: context, without loss."""
    response_ids: NDArray[np.int32]
    """(response,) sampled tokens and the context between them, in turn; it ends with a sampled token."""
    response_mask: NDArray[np.uint8]
    """(response,) 1 where a token was sampled."""
    logprobs: NDArray[np.float32]
    """(response,) as the engine reported them; 0.0 only where the mask is 0."""
    versions: NDArray[np.int32]
    """(response,) the weight version that sampled the token; -1 where the mask is 0."""
    routes: Routes | None = None
    """(prompt + response - 1, layers, top_k) experts by absolute position, or None."""

    @property
    def ids(self) -> NDArray[np.int32]:
        return np.concatenate([self.prompt_ids, self.response_ids])


class Segment:
    """A growing segment. Its last message is always the assistant's turn that it ends with."""

    def __init__(
        self, index: int, reason: Split, messages: Iterable[Message], tools: Sequence[Tool], prompt: array[int]
    ) -> None:
        self.index = index
        self.reason = reason
        self.messages = list(messages)
        self.tools = tools
        self.calls: list[int] = []
        self.ids: array[int] = array("i", prompt)
        self._prompt_length = len(prompt)
        self._mask = bytearray()
        self._logprobs: array[float] = array("f")
        self._versions: array[int] = array("i")
        self._routes: list[Routes] = []
        self._route_rows = 0
        self._before_context = len(self.messages), len(self.ids)
        self._last_sample = _NO_SAMPLE

    def append_context(self, messages: Iterable[Message], ids: array[int]) -> None:
        self._before_context = len(self.messages), len(self.ids)
        self.messages.extend(messages)
        self.ids.extend(ids)
        count = len(ids)
        self._mask.extend(bytes(count))
        self._logprobs.frombytes(bytes(4 * count))
        self._versions.extend(array("i", [NO_VERSION]) * count)

    def append_sample(self, call: int, turn: Message, sample: Sample) -> None:
        """Append sampled tokens; only rows of routes beyond those already known are taken, and copied."""
        if sample.routes is not None:
            self._routes.append(sample.routes[self._route_rows :].copy())
            self._route_rows = len(sample.routes)
        self._last_sample = replace(sample, routes=None)
        self.messages.append(turn)
        self.calls.append(call)
        self.ids.frombytes(np.ascontiguousarray(sample.ids, dtype=np.int32).tobytes())
        self._mask.extend(b"\x01" * len(sample.ids))
        self._logprobs.frombytes(np.ascontiguousarray(sample.logprobs, dtype=np.float32).tobytes())
        self._versions.frombytes(np.ascontiguousarray(sample.versions, dtype=np.int32).tobytes())

    def split_last_call(self, index: int, reason: Split) -> Segment:
        """Take the last call off, with the context that came for it: it becomes a segment of its own.

        There has to be a call before it, since it is that one's turn that this segment then ends with.
        """
        sampled = len(self.ids) - len(self._last_sample.ids)
        last = Segment(index, reason, self.messages[:-1], self.tools, self.ids[:sampled])
        last.append_sample(self.calls.pop(), self.messages[-1], self._last_sample)
        if self._routes:
            last._routes, last._route_rows = [np.concatenate(self._routes)], self._route_rows
            self._route_rows -= len(self._routes.pop())
        messages, ids = self._before_context
        del self.messages[messages:]
        del self.ids[ids:]
        for column in (self._mask, self._logprobs, self._versions):
            del column[ids - self._prompt_length :]
        return last

    def check_routes(self, sample: Sample, prompt_ids: Sequence[int]) -> None:
        """Raise ``IncompleteSample`` unless the routes fit the sample and those that are known already."""
        if (sample.routes is None) != (not self._route_rows) and self.calls:
            raise IncompleteSample("some calls of a segment carry expert routes and some do not")
        check_routes(sample, prompt_ids, self._route_rows)

    def training(self) -> TrainingSegment:
        ids = np.array(self.ids, dtype=np.int32)
        return TrainingSegment(
            index=self.index,
            reason=self.reason,
            calls=tuple(self.calls),
            prompt_ids=ids[: self._prompt_length],
            response_ids=ids[self._prompt_length :],
            response_mask=np.array(self._mask, dtype=np.uint8),
            logprobs=np.array(self._logprobs, dtype=np.float32),
            versions=np.array(self._versions, dtype=np.int32),
            routes=np.concatenate(self._routes) if self._routes else None,
        )

"""What stands behind the proxy: token ids in, sampled token ids out.

verl's rollout servers in training, a script or a recording in tests. An endpoint that speaks only
text is a ``ChatPolicy``: it can be evaluated, and it can never be trained, since nobody knows its ids.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

from lego_verl.capture.call import Sample
from lego_verl.capture.message import Request


class PolicyError(Exception):
    """The policy could not generate. The trial ends as ``policy_failed``, never as a reward."""


class ContextOverflow(Exception):
    """The prompt is longer than the policy's context. A harness may compact its history and go on."""


@dataclass(frozen=True)
class Sampling:
    """How to sample. The trainer's values rule; what the harness asked for is only recorded."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = -1
    stop: tuple[str, ...] = ()
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Engine parameters that are passed through as they are."""


@runtime_checkable
class Policy(Protocol):
    """A policy whose tokens are known."""

    model: str

    async def generate(self, *, session: str, prompt_ids: Sequence[int], max_tokens: int, sampling: Sampling) -> Sample:
        """Sample a continuation. ``session`` is stable for a trial, so that a server can reuse its KV cache."""
        ...


@runtime_checkable
class RequestPolicy(Protocol):
    """A policy that answers a request rather than its ids: a script or a recording, never an engine."""

    model: str

    async def answer(
        self, request: Request, *, session: str, prompt_ids: Sequence[int], max_tokens: int, sampling: Sampling
    ) -> Sample: ...


@dataclass(frozen=True)
class ChatReply:
    """An endpoint's message (OpenAI chat form: ``content``, ``reasoning_content``, ``tool_calls``) and usage."""

    message: Mapping[str, Any]
    finish_reason: str
    usage: Mapping[str, int]


@runtime_checkable
class ChatPolicy(Protocol):
    """A policy known only by its text: an OpenAI-compatible server."""

    model: str

    async def reply(self, body: Mapping[str, Any]) -> ChatReply:
        """Answer a chat-completions body (``messages``, ``tools``, ``max_tokens``, sampling parameters)."""
        ...

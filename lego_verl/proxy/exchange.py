"""What passes between a dialect and a session: a request without its wire shape, and the reply to it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

from lego_verl.capture.message import Message, Request
from lego_verl.proxy.errors import ProxyError
from lego_verl.proxy.known import Known

FinishReason = Literal["stop", "tool_calls", "length"]


@dataclass(frozen=True)
class Ask:
    """One request of a harness."""

    request: Request
    model: str
    stream: bool = False
    include_usage: bool = False
    """Whether a streamed reply ends with its usage."""
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """The harness's own sampling parameters: recorded, not used."""
    wire: Any = None
    """What a dialect keeps of the request to write the reply in its shape; nobody else looks at it."""


@dataclass(frozen=True)
class Answer:
    """The reply to an ask. A retry of the ask gets the same one."""

    id: str
    """Unique, without a dialect's prefix."""
    created: int
    """Unix seconds."""
    message: Message
    finish: FinishReason
    prompt_tokens: int
    completion_tokens: int
    stopped: str = ""
    """The stop string that ended it, where one did."""


class Dialect(Protocol):
    """One wire protocol: it knows shapes, and nothing of tokens."""

    keepalive: bytes
    """What a stream holds while a reply is being generated; clients ignore it."""

    def read(self, body: bytes, headers: Mapping[str, str], known: Known | None = None) -> Ask:
        """Read a request; ``known`` is its session's, and may be left alone.

        Raises:
            BadRequest: when the body is malformed or asks for what cannot be honoured.
        """
        ...

    def whole(self, ask: Ask, answer: Answer) -> bytes: ...

    def events(self, ask: Ask, answer: Answer) -> Iterable[bytes]:
        """The reply as server-sent events, each complete with its blank line."""
        ...

    def error(self, error: ProxyError) -> bytes: ...

    def error_event(self, error: ProxyError) -> bytes:
        """An error in a stream whose status has already been sent."""
        ...

    def mint(self) -> str:
        """A new id of a tool call, in the form that clients of this protocol expect."""
        ...


@runtime_checkable
class CountingDialect(Dialect, Protocol):
    """A dialect whose clients may ask how long a prompt would be (``…/count_tokens``)."""

    def read_count(self, body: bytes, headers: Mapping[str, str]) -> Request:
        """Raises ``BadRequest`` as ``read`` does."""
        ...

    def count(self, tokens: int) -> bytes: ...

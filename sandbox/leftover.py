"""What dead runs left, one thing at a time: so that it can be shown before it is removed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class Leftover:
    """One thing that nobody who lives owns any more."""

    kind: str
    """``process``, ``folder``, ``container`` …"""
    what: str
    """The thing itself: enough for a person to find it."""
    run: str
    """The run that it belonged to; empty where nothing says it."""
    remove: Callable[[], Awaitable[None]] = field(compare=False, repr=False)
    """Removes it, unless it has gone or got a living owner meanwhile. ``OSError`` when it cannot be removed."""


@runtime_checkable
class ListsLeftovers(Protocol):
    """A backend that can say what its ``reap`` would remove."""

    async def left(self, run: str | None = None) -> list[Leftover]:
        """What dead runs left, all or of one name. Never anything that a living process owns."""
        ...

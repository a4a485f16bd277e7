"""Replies that a harness may ask for again: by the bytes of its request, until it has gone on from them.

A harness that asks the same once more did not get its reply: it gets that one. A harness that has gone on from a
reply, and later asks what it asked before, begins anew: it gets another.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

from lego_verl.proxy.exchange import Answer


class StoredReplies:
    """Of one session, those that are being made among them."""

    def __init__(self) -> None:
        self._tasks: dict[bytes, asyncio.Task[Answer]] = {}
        self._keys: dict[int, bytes] = {}

    def __iter__(self) -> Iterator[asyncio.Task[Answer]]:
        return iter(list(self._tasks.values()))

    def find(self, key: bytes) -> asyncio.Task[Answer] | None:
        return self._tasks.get(key)

    def keep(self, key: bytes, task: asyncio.Task[Answer]) -> None:
        self._tasks[key] = task

    def drop(self, key: bytes) -> None:
        """There is no reply: the next request with this key is a new one."""
        self._tasks.pop(key, None)

    def committed(self, call: int, key: bytes) -> None:
        """A reply became this call of the session."""
        self._keys[call] = key

    def gone_on_from(self, call: int) -> None:
        """The harness has the reply of this call in its history."""
        key = self._keys.pop(call, None)
        if key is not None:
            self._tasks.pop(key, None)

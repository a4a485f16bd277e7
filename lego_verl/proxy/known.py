"""The messages of a session's latest request: the next one nearly always begins with them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from lego_verl.capture.message import Message


class Known:
    """Keeps what was read of each message, so that a growing history is not read anew with every turn.

    Comparing two parsed messages is some ten times cheaper than reading one; and messages that are the very same
    objects as before compare at once in what follows.
    """

    def __init__(self) -> None:
        self._wire: list[Any] = []
        self._read: list[Message] = []

    def read(
        self, wire: list[Any], read_one: Callable[[Any, int], Message], exact: Callable[[Any], bool]
    ) -> tuple[Message, ...]:
        """Read ``wire``; ``read_one`` (given a message and its index) is called for what is new or changed.

        Args:
            exact: whether two messages like this one, once read, are equal to Python only when they are the same: where
                they hold numbers they may not be, since true equals 1.

        Raises:
            Whatever ``read_one`` raises; what was known stays.
        """
        same = 0
        for before, now in zip(self._wire, wire, strict=False):
            if before is not now and (before != now or not exact(now)):
                break
            same += 1
        messages = [*self._read[:same], *(read_one(wire[index], index) for index in range(same, len(wire)))]
        self._wire, self._read = wire, messages
        return tuple(messages)

"""The host's end of the conversation with the keeper (see ``guest.py`` for the frames)."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from sandbox.sandbox import SandboxLost

CALL, DATA, END, ABORT, DONE = 1, 2, 3, 4, 5
_STREAMS = 1 << 31
_HEADER = struct.Struct("!BII")
_CHUNK = 256 << 10


class Reader(Protocol):
    """What of an ``asyncio.StreamReader`` is used."""

    async def readexactly(self, n: int) -> bytes: ...


class Writer(Protocol):
    """What of an ``asyncio.StreamWriter`` is used."""

    @property
    def transport(self) -> asyncio.WriteTransport: ...

    def write(self, data: bytes | memoryview) -> None: ...

    async def drain(self) -> None: ...


class RequestFailed(OSError):
    """The keeper could not do what was asked; ``errno`` and the message are the kernel's."""


@dataclass
class _Pending:
    answer: asyncio.Future[dict[str, Any]]
    data: list[bytes] = field(default_factory=list)


class Channel:
    """Requests over one socket, any number at once. Everything pending fails when the other end goes."""

    def __init__(
        self,
        reader: Reader,
        writer: Writer,
        explain: Callable[[], str],
        on_stream: Callable[[int, int, bytes], None] | None = None,
    ) -> None:
        """
        Args:
            explain: says, once the other end has gone, why it may have.
            on_stream: is given the frames of the link's streams (kind, number, payload), where the channel carries it.
        """
        self._reader, self._writer, self._explain, self._on_stream = reader, writer, explain, on_stream
        loop = asyncio.get_running_loop()
        self._hello: asyncio.Future[dict[str, Any]] = loop.create_future()
        self._pending: dict[int, _Pending] = {0: _Pending(self._hello)}
        self._last = 0
        self._lost: str | None = None
        self._reading = loop.create_task(self._read())

    async def hello(self) -> Mapping[str, Any]:
        """What the keeper says of itself when it is up."""
        return await self._hello

    async def request(
        self, header: Mapping[str, Any], data: bytes | memoryview = b""
    ) -> tuple[Mapping[str, Any], bytes]:
        """The answer and the data that came with it. ``SandboxLost``; ``RequestFailed``. Cancelling aborts it."""
        if self._lost is not None:
            raise SandboxLost(self._lost)
        self._last += 1
        number = self._last
        pending = self._pending[number] = _Pending(asyncio.get_running_loop().create_future())
        # Written in one go, without waiting in between, so that requests of several tasks do not mix.
        self._write(CALL, number, json.dumps(header).encode())
        view = memoryview(data)
        for start in range(0, len(view), _CHUNK):
            self._write(DATA, number, view[start : start + _CHUNK])
        self._write(END, number, b"")
        try:
            with contextlib.suppress(ConnectionError):
                await self._writer.drain()
            answer = await pending.answer
        except asyncio.CancelledError:
            if self._lost is None:
                self._write(ABORT, number, b"")
            raise
        finally:
            self._pending.pop(number, None)
        if answer.get("error") is not None:
            raise RequestFailed(answer.get("errno") or 0, answer["error"])
        return answer, b"".join(pending.data)

    def send(self, kind: int, number: int, payload: bytes) -> None:
        """A frame of one of the link's streams; nothing when the other end has gone."""
        if self._lost is None:
            self._write(kind, number, payload)

    def _write(self, kind: int, number: int, payload: bytes | memoryview) -> None:
        self._writer.write(_HEADER.pack(kind, number, len(payload)))
        if payload:
            self._writer.write(payload)

    async def _read(self) -> None:
        try:
            while True:
                kind, number, size = _HEADER.unpack(await self._reader.readexactly(_HEADER.size))
                payload = await self._reader.readexactly(size) if size else b""
                if number >= _STREAMS:
                    if self._on_stream is not None:
                        self._on_stream(kind, number, payload)
                    continue
                pending = self._pending.get(number)
                if pending is None:
                    continue  # of a request that was cancelled
                if kind == DATA:
                    pending.data.append(payload)
                elif not pending.answer.done():
                    pending.answer.set_result(json.loads(payload))
        except (asyncio.IncompleteReadError, ConnectionError, OSError):
            self.fail(self._explain())

    def fail(self, why: str) -> None:
        """End the conversation: everything pending and everything later raises ``SandboxLost(why)``."""
        if self._lost is None:
            self._lost = why
        for pending in self._pending.values():
            if not pending.answer.done():
                pending.answer.set_exception(SandboxLost(self._lost))
                pending.answer.exception()  # whoever waited may have been cancelled: not an error of its own
        transport = self._writer.transport
        if not transport.is_closing():
            transport.abort()

    async def close(self) -> None:
        self.fail("the sandbox is closed")
        self._reading.cancel()
        await asyncio.wait({self._reading})


def drain_pipe(fd: int, limit: int = 8192) -> str:
    """What stands in a non-blocking pipe now."""
    try:
        return os.read(fd, limit).decode(errors="replace").strip()
    except (BlockingIOError, OSError):
        return ""

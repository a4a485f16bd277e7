"""The host's end of a link that a sandbox's channel carries: for a daemon that shares no file system with us.

Each connection that is made inside becomes one to the trial's socket here. See ``guest.py`` for the frames.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sandbox.channel import ABORT, DATA, END

OPEN, ACK = 6, 7
WINDOW = 1 << 18
_CHUNK = 1 << 16
Send = Callable[[int, int, bytes], None]


class Forwarder:
    """The connections of one sandbox."""

    def __init__(self, link: Path) -> None:
        self._link = link
        self._streams: dict[int, _Stream] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self.send: Send = lambda kind, number, payload: None
        """Given by the channel, once there is one."""

    def on_frame(self, kind: int, number: int, payload: bytes) -> None:
        """A frame of the keeper's."""
        if kind == OPEN:
            stream = self._streams[number] = _Stream(number, self.send)
            task = asyncio.get_running_loop().create_task(self._carry(stream))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        elif number in self._streams:
            self._streams[number].on_frame(kind, payload)

    async def close(self) -> None:
        """Break every connection."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _carry(self, stream: _Stream) -> None:
        try:
            await stream.carry(self._link)
        finally:
            del self._streams[stream.number]


class _Stream:
    """One connection: two directions, neither of which waits for the other."""

    def __init__(self, number: int, send: Send) -> None:
        self.number, self._send = number, send
        self._arrived: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._ahead = 0
        self._room = asyncio.Event()
        self._broken = asyncio.Event()

    def on_frame(self, kind: int, payload: bytes) -> None:
        if kind == DATA:
            self._arrived.put_nowait(payload)
        elif kind == END:
            self._arrived.put_nowait(None)
        elif kind == ACK:
            self._ahead -= int.from_bytes(payload, "big")
            self._room.set()
        elif kind == ABORT:
            self._broken.set()

    async def carry(self, link: Path) -> None:
        try:
            reader, writer = await asyncio.open_unix_connection(str(link))
        except OSError:
            self._send(ABORT, self.number, b"")
            return
        ways = [asyncio.ensure_future(self._out(writer)), asyncio.ensure_future(self._back(reader))]
        broken = asyncio.ensure_future(self._broken.wait())
        both = asyncio.gather(*ways)
        try:
            either: set[asyncio.Future[Any]] = {both, broken}
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if both.done() and both.exception() is not None:
                self._send(ABORT, self.number, b"")
        finally:
            for task in (*ways, broken):
                task.cancel()
            await asyncio.gather(both, *ways, broken, return_exceptions=True)
            writer.close()

    async def _out(self, writer: asyncio.StreamWriter) -> None:
        while (data := await self._arrived.get()) is not None:
            writer.write(data)
            await writer.drain()
            self._send(ACK, self.number, len(data).to_bytes(4, "big"))
        writer.write_eof()

    async def _back(self, reader: asyncio.StreamReader) -> None:
        while data := await reader.read(_CHUNK):
            self._ahead += len(data)
            self._send(DATA, self.number, data)
            while self._ahead >= WINDOW:
                self._room.clear()
                await self._room.wait()
        self._send(END, self.number, b"")

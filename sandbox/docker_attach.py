"""A container's standard streams as one asyncio stream: the attach call of the engine's API, spoken here.

The SDK gives a blocking socket, of another kind for each way to reach a daemon. A conversation that lasts
as long as a trial would cost two threads each; a stream of the event loop costs none.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from sandbox.channel import Writer
from sandbox.sandbox import SandboxError, SandboxUnavailable

_FRAME = struct.Struct("!BxxxI")
_STDOUT = 1
_KEPT_ERRORS = 8192


@dataclass(frozen=True)
class Address:
    """Where a daemon listens: ``unix://``, or ``tcp://``, plain or with TLS."""

    url: str
    certificates: Path | None = None
    """The folder with ``ca.pem``, ``cert.pem`` and ``key.pem``; None: no TLS."""

    async def connect(self) -> tuple[asyncio.StreamReader, Writer]:
        """A connection of one's own. ``OSError`` when nobody answers."""
        parts = urlsplit(self.url)
        if parts.scheme == "unix":
            return await asyncio.open_unix_connection(parts.path)
        if parts.scheme in ("tcp", "http", "https"):
            port = parts.port or (2376 if self.certificates else 2375)
            return await asyncio.open_connection(parts.hostname, port, ssl=self._tls())
        raise SandboxUnavailable(f"{self.url} is no address of a docker daemon: it is unix://, tcp:// or ssh://")

    def _tls(self) -> ssl.SSLContext | None:
        if self.certificates is None:
            return None
        context = ssl.create_default_context(cafile=str(self.certificates / "ca.pem"))
        context.load_cert_chain(self.certificates / "cert.pem", self.certificates / "key.pem")
        return context


class AttachedReader:
    """What the container writes to its standard output; what it writes to its standard error is kept aside."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        self._reader = reader
        self._ready = bytearray()
        self.errors = bytearray()

    async def readexactly(self, n: int) -> bytes:
        """As ``asyncio.StreamReader`` has it."""
        while len(self._ready) < n:
            kind, length = _FRAME.unpack(await self._reader.readexactly(_FRAME.size))
            payload = await self._reader.readexactly(length)
            if kind == _STDOUT:
                self._ready += payload
            else:
                self.errors = (self.errors + payload)[-_KEPT_ERRORS:]
        taken = bytes(memoryview(self._ready)[:n])
        del self._ready[:n]
        return taken


async def attach(address: Address, version: str, container: str) -> tuple[AttachedReader, Writer]:
    """The streams of a container that has standard input and no terminal; best before it is started.

    Raises:
        SandboxError: with the daemon's words when it refuses.
        OSError: when it cannot be reached.
    """
    reader, writer = await address.connect()
    try:
        path = f"/v{version}/containers/{container}/attach?stream=1&stdin=1&stdout=1&stderr=1"
        request = (
            f"POST {path} HTTP/1.1\r\nHost: docker\r\nConnection: Upgrade\r\nUpgrade: tcp\r\nContent-Length: 0\r\n"
        )
        writer.write(f"{request}\r\n".encode())
        await writer.drain()
        answer = await reader.readuntil(b"\r\n\r\n")
        status = answer.split(None, 2)[1]
        if status not in (b"101", b"200"):
            said = (await reader.read(512)).decode(errors="replace").strip()
            raise SandboxError(f"the daemon gives no stream of the container: {said}")
    except asyncio.IncompleteReadError as error:
        writer.transport.abort()
        raise ConnectionResetError("the daemon closed the connection") from error
    except BaseException:
        writer.transport.abort()
        raise
    return AttachedReader(reader), writer

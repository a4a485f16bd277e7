"""The policy behind wire protocols: one HTTP server in this process, a session for every trial.

A session is reached in two ways. Its unix socket serves it and nothing else, so a sandbox whose only way out
is that socket cannot name another session. On the loopback port every session has a path prefix of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from lego_verl.proxy.dialects.origin import agent_of
from lego_verl.proxy.dialects.registry import dialects
from lego_verl.proxy.errors import ProxyError
from lego_verl.proxy.exchange import Answer, Ask, CountingDialect, Dialect
from lego_verl.proxy.session import Session

_ANY = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}
"""How a server that listens everywhere is reached from its own machine."""
_COUNT = "/count_tokens"
_MAX_SOCKET_PATH = 107
_SESSION_ID = re.compile(r"[A-Za-z0-9._-]+")
_NEW_SESSION_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}")
"""Of sessions that are made for whoever asks: these become names of folders."""
_SESSION_PATH = re.compile(r"/s/([^/]+)(/.*)?")

Serve = Callable[[], Awaitable[web.StreamResponse]]
Watch = Callable[[Session, web.BaseRequest, Serve], Awaitable[web.StreamResponse]]
"""Stands between a session's harness and what answers it: looks, awaits the answer, or raises a ``ProxyError``."""

_STREAM = {"Content-Type": "text/event-stream; charset=utf-8", "Cache-Control": "no-cache"}

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Address:
    """Where a session is reached."""

    base_url: str
    """On the host's loopback, without a trailing slash; OpenAI-style clients add ``/v1``."""
    socket: Path | None


@dataclass
class _Open:
    session: Session
    socket: Path | None = None
    listener: asyncio.Server | None = None
    server: web.Server | None = None


class ProxyServer:
    """One server a process.

    Args:
        keepalive: seconds of generation after which a streamed reply begins, with comments until it is there.
        max_body: bytes of a request that are read at most.
        host: the address to listen on.
        port: 0 takes a free one.
        new_session: makes the session of a path prefix at its first use. A server that has it shows what it keeps, too:
            ``GET /`` lists the sessions, ``GET /s/<session>/proof`` is a session's proof, also after it is closed.
        max_sessions: how many of these are made; the next one gets a 429.
        watch: sees every request to a session, for whoever looks at harnesses; None: nobody does.
    """

    def __init__(
        self,
        *,
        keepalive: float = 10.0,
        max_body: int = 64 << 20,
        host: str = "127.0.0.1",
        port: int = 0,
        new_session: Callable[[str], Session] | None = None,
        max_sessions: int = 4096,
        watch: Watch | None = None,
    ) -> None:
        self.host, self.port = host, port
        self._new_session, self._max_sessions = new_session, max_sessions
        self._keepalive, self._max_body, self._watch = keepalive, max_body, watch
        self._dialects = dialects()
        self._open: dict[str, _Open] = {}
        self._server: web.Server | None = None
        self._listener: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen; ``port`` says on which port.

        Raises:
            OSError: when the address is taken, or not this machine's.
        """
        self._server = self._web_server(None)
        self._listener = await asyncio.get_running_loop().create_server(self._server, self.host, self.port)
        self.port = int(self._listener.sockets[0].getsockname()[1])

    def _web_server(self, session: Session | None) -> web.Server:
        loop = asyncio.get_running_loop()

        def request(message: Any, payload: Any, protocol: Any, writer: Any, task: Any) -> web.BaseRequest:
            return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=self._max_body)

        return web.Server(partial(self._handle, session), request_factory=request, access_log=None)

    async def open(self, session: Session, *, socket: Path | None = None) -> Address:
        """Serve a session, and start its clock.

        Args:
            socket: where its unix socket is made; anyone who can reach the path may connect.

        Raises:
            ValueError: when the id is taken or malformed, or the socket's path too long.
        """
        if not _SESSION_ID.fullmatch(session.id):
            raise ValueError(f"session id {session.id!r} holds more than letters, digits, '.', '_' and '-'")
        if session.id in self._open:
            raise ValueError(f"session {session.id} is already open")
        entry = _Open(session, socket)
        if socket is not None:
            if len(os.fsencode(socket)) > _MAX_SOCKET_PATH:
                raise ValueError(f"session {session.id}: socket path {socket} is longer than {_MAX_SOCKET_PATH} bytes")
            entry.server = self._web_server(session)
            entry.listener = await asyncio.get_running_loop().create_unix_server(entry.server, str(socket))
            # The agent runs as another user; that it can reach the folder at all is the sandbox's to decide.
            socket.chmod(0o666)
        self._open[session.id] = entry
        session.start()
        return Address(f"{self.url}/s/{session.id}", socket)

    @property
    def url(self) -> str:
        """Where the server is reached from this machine, without a trailing slash."""
        host = _ANY.get(self.host, self.host)
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def sessions(self) -> Mapping[str, Session]:
        """The sessions that are kept: the open ones, and with ``new_session`` the closed ones as well."""
        return {name: entry.session for name, entry in self._open.items()}

    async def close(self, session_id: str) -> None:
        """Close a session and its socket; calls in flight end within a second. The session stays readable."""
        entry = self._open.get(session_id)
        if entry is None:
            return
        if self._new_session is None:
            del self._open[session_id]
        entry.session.close()
        await _shut(entry.listener, entry.server)
        if entry.socket is not None:
            entry.socket.unlink(missing_ok=True)

    async def stop(self) -> None:
        """Close every session, and stop listening."""
        for session_id in list(self._open):
            await self.close(session_id)
        await _shut(self._listener, self._server)
        self._listener = self._server = None

    async def _handle(self, session: Session | None, request: web.BaseRequest) -> web.StreamResponse:
        path = request.path
        dialect = self._dialect_of(path)
        try:
            found = _SESSION_PATH.fullmatch(path)
            if found is not None:
                path = found[2] or "/"
                named = self._open.get(found[1])
                if named is None and session is None and self._answers(path):
                    named = await self._opened(found[1])
                if named is None or (session is not None and named.session is not session):
                    raise ProxyError(404, f"there is no session {found[1]!r} here", code="session_not_found")
                session = named.session
            if self._new_session is not None and (path == "/proof" if found else path in ("/", "/sessions")):
                _only("GET", request)
                return _json(200, orjson.dumps(session.proof().as_dict() if session else self._listing()))
            if session is None:
                raise ProxyError(404, "no session: its address begins with /s/<session>", code="session_not_found")
            serve = partial(self._serve, session, path.removeprefix("/v1"), request)
            return await (serve() if self._watch is None else self._watch(session, request, serve))
        except ProxyError as error:
            return _json(error.status, dialect.error(error))

    async def _serve(self, session: Session, path: str, request: web.BaseRequest) -> web.StreamResponse:
        if path == "/models" or path.startswith("/models/"):
            _only("GET", request)
            return _json(200, _models(session))
        counting = self._dialects.get(path.removesuffix(_COUNT)) if path.endswith(_COUNT) else None
        if isinstance(counting, CountingDialect):
            _only("POST", request)
            asked = counting.read_count(await self._body(request), request.headers)
            return _json(200, counting.count(session.count(asked)))
        if path not in self._dialects:
            raise ProxyError(404, f"there is nothing at {request.path}", code="not_found")
        _only("POST", request)
        return await self._reply(session, self._dialects[path], path, request)

    def _answers(self, path: str) -> bool:
        """Whether a request to this path of a session is one that only a session can answer."""
        path = path.removeprefix("/v1").removesuffix(_COUNT)
        return path in self._dialects or path == "/models" or path.startswith("/models/")

    async def _opened(self, name: str) -> _Open | None:
        """The session of a path prefix that is used for the first time; None where this server makes none."""
        if self._new_session is None:
            return None
        if not _NEW_SESSION_ID.fullmatch(name):
            how = "1 to 128 letters, digits, '.', '_' and '-', and the first is no '.'"
            raise ProxyError(400, f"{name[:200]!r} is no name of a session: it has {how}", code="bad_session")
        if len(self._open) >= self._max_sessions:
            raise ProxyError(
                429, f"there are {self._max_sessions} sessions, and no more are made", code="too_many_sessions"
            )
        await self.open(self._new_session(name))
        return self._open[name]

    def _listing(self) -> dict[str, Any]:
        return {
            "sessions": [
                {
                    "session": name,
                    "base_url": f"{self.url}/s/{name}",
                    "turns": session.turns,
                    "sampled_tokens": session.sampled_tokens,
                    "ending": session.ending,
                }
                for name, session in self.sessions.items()
            ]
        }

    def _dialect_of(self, path: str) -> Dialect:
        """The dialect whose path ends this one, so that errors of a session have its shape too."""
        for end, dialect in self._dialects.items():
            if path.removesuffix(_COUNT).endswith(end):
                return dialect
        return next(iter(self._dialects.values()))

    async def _body(self, request: web.BaseRequest) -> bytes:
        try:
            return await request.read()
        except web.HTTPRequestEntityTooLarge as error:
            raise ProxyError(413, f"the body is larger than {self._max_body} bytes", code="too_large") from error

    async def _reply(
        self, session: Session, dialect: Dialect, path: str, request: web.BaseRequest
    ) -> web.StreamResponse:
        body = await self._body(request)
        key = sha256(f"{path}\0{agent_of(request.headers)}\0".encode())
        key.update(body)
        ask, answer = session.ask(key.digest(), partial(dialect.read, body, request.headers), dialect.mint)
        await asyncio.wait({answer}, timeout=self._keepalive)
        if not answer.done() and ask.stream:
            return await self._stream_later(dialect, request, ask, answer)
        await answer
        if not ask.stream:
            return _json(200, dialect.whole(ask, answer.result()))
        return web.Response(body=b"".join(dialect.events(ask, answer.result())), headers=_STREAM)

    async def _stream_later(
        self, dialect: Dialect, request: web.BaseRequest, ask: Ask, answer: asyncio.Future[Answer]
    ) -> web.StreamResponse:
        """Begin a stream before the reply is there, so that no client takes the wait for a dead connection."""
        response = web.StreamResponse(headers=_STREAM)
        # The client may go away; the session keeps the reply for when it comes back.
        with contextlib.suppress(ConnectionError):
            await response.prepare(request)
            while not answer.done():
                await response.write(dialect.keepalive)
                await asyncio.wait({answer}, timeout=self._keepalive)
            try:
                events = b"".join(dialect.events(ask, answer.result()))
            except ProxyError as error:
                events = dialect.error_event(error)
            await response.write(events)
            await response.write_eof()
        return response


async def _shut(listener: asyncio.Server | None, server: web.Server | None) -> None:
    if listener is not None:
        listener.close()
    if server is not None:
        await server.shutdown(timeout=0.5)


def _only(method: str, request: web.BaseRequest) -> None:
    if request.method != method:
        raise ProxyError(405, f"{request.path} takes {method}, not {request.method}", code="method_not_allowed")


def _models(session: Session) -> bytes:
    """The one model there is, in the shapes of both families of clients at once."""
    name = session.policy.model
    openai = {"id": name, "object": "model", "created": 0, "owned_by": "lego_verl"}
    anthropic = {"type": "model", "display_name": name, "created_at": "1970-01-01T00:00:00Z"}
    page = {"has_more": False, "first_id": name, "last_id": name}
    return orjson.dumps({"object": "list", "data": [{**openai, **anthropic}], **page})


def _json(status: int, body: bytes) -> web.Response:
    return web.Response(status=status, body=body, content_type="application/json")

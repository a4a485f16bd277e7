"""Who may ask, and what a browser may do with the answer.

Runs hold source code, so: bound to anything but loopback, or with ``--token``, everything under ``/api`` wants the
token, given once as ``?token=`` and kept in a cookie. The page itself (public code) does not: a link from elsewhere to
``#/run/…`` opens, and its own requests carry the cookie, which ``SameSite=Strict`` withholds from the link. On loopback
``Host`` must be a name of loopback: else a page of another origin could point its own name here (DNS rebinding).
"""

from __future__ import annotations

import contextlib
import hmac
import ipaddress
import secrets
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qs

import orjson
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

LEAST_TOKEN = 12
"""Characters of a token that a person chose."""

_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data: blob:; connect-src 'self'; "
    "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
_HEADERS = {
    "content-security-policy": _POLICY,
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
    "x-frame-options": "DENY",
    "cross-origin-resource-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
}


def new_token() -> str:
    return secrets.token_urlsafe(24)


def is_loopback(host: str) -> bool:
    """Whether an address or name is of this machine alone."""
    if host.lower().rstrip(".") == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Guard:
    """ASGI middleware.

    Args:
        token: what ``/api`` wants; None: nothing.
        loopback: whether the server is bound to loopback: then ``Host`` must be, too.
        cookie: its name; a browser's cookies are of a host, whatever the port, so it holds the port.
    """

    def __init__(self, app: ASGIApp, *, token: str | None, loopback: bool, cookie: str) -> None:
        self._app, self._token, self._loopback, self._cookie = app, token, loopback, cookie

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            if scope["type"] == "lifespan":
                await self._app(scope, receive, send)
            return  # a web socket: there are none
        headers = Headers(scope=scope)
        given = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[0]
        right = bool(given) and self._is_token(given)

        async def sent(message: Message) -> None:
            if message["type"] == "http.response.start":
                answer = MutableHeaders(scope=message)
                for name, value in _HEADERS.items():
                    answer[name] = value
                if "cache-control" not in answer:
                    answer["cache-control"] = "no-store"
                if right:
                    answer.append("set-cookie", f"{self._cookie}={given}; HttpOnly; SameSite=Strict; Path=/")
            await send(message)

        if self._loopback and not is_loopback(_name(headers.get("host", ""))):
            await _refuse(sent, 421, "this dashboard answers to localhost only: open it as http://localhost:PORT/")
        elif headers.get("sec-fetch-site") == "cross-site" and scope["path"].startswith("/api"):
            await _refuse(sent, 403, "another site's page may not ask here")
        elif given and self._token is not None and not right:
            await _refuse(sent, 401, "this is not the token: the whole address is printed where it was started")
        elif scope["path"].startswith("/api") and not (right or self._knows(headers)):
            await _refuse(sent, 401, "a token is needed: open the whole address that was printed where it was started")
        else:
            await self._app(scope, receive, sent)

    def _is_token(self, given: str) -> bool:
        return self._token is not None and hmac.compare_digest(given.encode(), self._token.encode())

    def _knows(self, headers: Headers) -> bool:
        if self._token is None:
            return True
        found: SimpleCookie = SimpleCookie()
        with contextlib.suppress(CookieError):  # another application's, on this host
            found.load(headers.get("cookie", ""))
        return self._cookie in found and self._is_token(found[self._cookie].value)


def _name(host: str) -> str:
    """Of a ``Host`` header, without its port."""
    if host.startswith("["):
        return host.partition("]")[0] + "]"
    return host.rpartition(":")[0] if ":" in host else host


async def _refuse(send: Any, status: int, why: str) -> None:
    body = orjson.dumps({"error": why})
    headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})

"""A proxy that remembers what it was asked, and lets a scenario's faults happen."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

from aiohttp import web

from lego_verl.harness_check.play import Play
from lego_verl.harness_check.scenario import Scenario
from lego_verl.proxy.dialects.registry import dialects
from lego_verl.proxy.errors import ProxyError, SessionOver
from lego_verl.proxy.server import ProxyServer, Serve
from lego_verl.proxy.session import Session


@dataclass
class Heard:
    """One request of a harness."""

    method: str
    path: str
    """Without ``/v1`` and what names the session."""
    headers: Mapping[str, str]
    body: bytes
    at: float
    """Monotonic seconds."""
    status: int = 0
    over: bool = False
    """Whether it was told that the session has ended."""


@dataclass
class Watched:
    """What was heard in one scenario."""

    scenario: Scenario
    play: Play
    heard: list[Heard] = field(default_factory=list)
    faults: int = 0
    ended: float | None = None
    """When the harness was gone: from then on nobody can ask."""

    def answered(self) -> list[Heard]:
        """The requests that got a reply of the policy's, in order."""
        known = dialects()
        return [each for each in self.heard if each.path in known and each.status == 200]

    def after_the_end(self) -> list[Heard]:
        return [each for each in self.heard if each.over]


class WatchingProxy(ProxyServer):
    """A proxy server whose sessions, by their id, are scenarios."""

    def __init__(self, watched: Mapping[str, Watched]) -> None:
        super().__init__(watch=self._look)
        self._watched = watched

    async def close(self, session_id: str) -> None:
        watched = self._watched.get(session_id)
        if watched is not None and watched.ended is None:
            watched.ended = time.monotonic()
        await super().close(session_id)

    async def _look(self, session: Session, request: web.BaseRequest, serve: Serve) -> web.StreamResponse:
        watched = self._watched[session.id]
        scenario, turn = watched.scenario, watched.play.turn
        if scenario.told_at is not None and turn >= scenario.told_at:
            session.close("turn_limit")
        path = request.path.removeprefix(f"/s/{session.id}").removeprefix("/v1")
        # The body is kept by the request: who serves it reads it again.
        body = await request.read()
        heard = Heard(request.method, path, request.headers, body, time.monotonic())
        watched.heard.append(heard)
        try:
            fault = scenario.fault
            if fault is not None and turn == fault.turn and watched.faults < fault.times and request.method == "POST":
                watched.faults += 1
                raise ProxyError(fault.status, fault.message)
            response = await serve()
        except ProxyError as error:
            heard.status, heard.over = error.status, isinstance(error, SessionOver)
            raise
        heard.status = response.status
        return response

"""The application: the page, its API, and the guard in front of both."""

from __future__ import annotations

import gzip
import sqlite3
import threading
from functools import lru_cache
from pathlib import Path

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, StreamingResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from lego_verl.dashboard.api import routers
from lego_verl.dashboard.api.common import Refused, Run, Shared, shared
from lego_verl.dashboard.guard import Guard
from lego_verl.dashboard.live import Watch, follow
from lego_verl.dashboard.plotly_file import plotly_file, plotly_script
from lego_verl.dashboard.runs import Runs

PAGE = Path(__file__).parent / "page"


def create_app(runs: Runs, *, token: str | None = None, loopback: bool = True, cookie: str = "lego_verl") -> FastAPI:
    """The dashboard of some runs.

    Args:
        token: what the API wants, if anything; needed where ``loopback`` is false.
        loopback: whether only this machine reaches it.
        cookie: the name under which a browser keeps the token.
    """
    if token is None and not loopback:
        raise ValueError("a dashboard that others reach needs a token")
    app = FastAPI(title="lego_verl", docs_url=None, redoc_url=None, openapi_url=None)
    app.state.shared = Shared(runs)
    app.state.plotly = _Plotly()
    app.add_middleware(Guard, token=token, loopback=loopback, cookie=cookie)
    app.add_exception_handler(Refused, _refused)
    app.add_exception_handler(RequestValidationError, _not_valid)
    app.add_exception_handler(HTTPException, _http)
    app.add_exception_handler(sqlite3.Error, _store)
    for router in routers():
        app.include_router(router)
    app.add_api_route("/api/runs/{run}/stream", stream, methods=["GET"])
    app.add_api_route("/plotly.min.js", plotly, methods=["GET"])
    app.mount("/page", _Page(directory=PAGE), name="page")
    app.add_api_route("/", index, methods=["GET"])
    return app


class _Plotly:
    """The library in memory, and packed a little later: that takes most of a second."""

    def __init__(self) -> None:
        self._path = plotly_file()
        self.script = lru_cache(maxsize=1)(self._read)
        self.packed: bytes | None = None
        if self._path is not None:
            threading.Thread(target=self._pack, name="packer", daemon=True).start()

    def _read(self) -> bytes:
        return b"" if self._path is None else plotly_script(self._path)

    def _pack(self) -> None:
        self.packed = gzip.compress(self.script(), 6)


class _Page(StaticFiles):
    """Files that a browser asks for again, and mostly gets a 304: an upgrade is seen at once."""

    def file_response(self, *args: object, **more: object) -> Response:
        response = super().file_response(*args, **more)  # type: ignore[arg-type]
        response.headers["cache-control"] = "no-cache"
        return response


def index() -> Response:
    return FileResponse(PAGE / "index.html", media_type="text/html", headers={"cache-control": "no-cache"})


def stream(run: Run, request: Request) -> Response:
    """Server-sent events of a run."""
    about = shared(request)
    watch = Watch(run, about.indexer, about.alive)
    headers = {"x-accel-buffering": "no", "cache-control": "no-store"}
    return StreamingResponse(follow(watch, about.ending), media_type="text/event-stream", headers=headers)


def plotly(request: Request) -> Response:
    """The installed package's own library; packed, as soon as it is: over an ssh tunnel its 5 MB are felt."""
    path = plotly_file()
    if path is None:
        raise Refused(404, "charts need plotly: pip install 'lego_verl[dashboard]'")
    tag = f'"{path.stat().st_size:x}-{path.stat().st_mtime_ns:x}"'
    headers = {"cache-control": "no-cache", "etag": tag, "vary": "accept-encoding"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    library: _Plotly = request.app.state.plotly
    if library.packed is None or "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(library.script(), media_type="text/javascript", headers=headers)
    return Response(library.packed, media_type="text/javascript", headers=headers | {"content-encoding": "gzip"})


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)
    return _error(error.status, **error.body)


async def _not_valid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    told = "; ".join(f"{each['loc'][-1]}: {each['msg']}" for each in error.errors())
    return _error(422, error=f"the address holds what cannot be: {told}")


async def _http(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return _error(error.status_code, error=str(error.detail))


async def _store(_: Request, error: Exception) -> Response:
    return _error(503, error=f"the store cannot be read: {error}")


def _error(status: int, **body: object) -> Response:
    return Response(orjson.dumps(body), status_code=status, media_type="application/json")

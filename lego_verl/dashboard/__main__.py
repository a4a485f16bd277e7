"""``python -m lego_verl.dashboard``: the command line."""

from __future__ import annotations

import argparse
import os
import socket
import sys
import threading
import webbrowser
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from types import FrameType
from urllib.parse import quote

from lego_verl.dashboard.demo import NoDemo, demo_run
from lego_verl.dashboard.runs import Runs
from lego_verl.proof.read import NoRun

_PORT, _TRIED = 8420, 20
_NEEDED = ("fastapi", "uvicorn", "plotly")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code (0 stopped, 1 it cannot be served, 2 no such run)."""
    parser = argparse.ArgumentParser(
        prog="python -m lego_verl.dashboard",
        description="Runs in the browser. A run whose store is missing or behind is indexed while the page is shown.",
    )
    parser.add_argument("run", nargs="*", help="folders of runs, or names under runs/; none: all under runs/")
    parser.add_argument("--port", type=int, help=f"default: the first that is free from {_PORT} on")
    parser.add_argument("--host", default="127.0.0.1", help="default: 127.0.0.1; with any other a token is needed")
    parser.add_argument("--token", help="what a browser must know; made and printed where one is needed")
    parser.add_argument("--demo", action="store_true", help="the demonstration run that is shipped")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")
    given = parser.parse_args(arguments)
    if missing := [name for name in _NEEDED if find_spec(name) is None]:
        return _told(1, f"{', '.join(missing)} not installed: pip install 'lego_verl[dashboard]'")
    with ExitStack() as stack:
        try:
            runs = Runs([*given.run, stack.enter_context(demo_run())] if given.demo else given.run)
        except (NoRun, NoDemo) as error:
            return _told(2, str(error))
        try:
            return _serve(runs, given)
        except (OSError, ValueError) as error:
            return _told(1, str(error))
        except KeyboardInterrupt:
            return 0


def _serve(runs: Runs, given: argparse.Namespace) -> int:
    import uvicorn

    from lego_verl.dashboard.app import create_app
    from lego_verl.dashboard.guard import LEAST_TOKEN, is_loopback, new_token

    loopback = is_loopback(given.host)
    token = given.token or (None if loopback else new_token())
    if token is not None and (len(token) < LEAST_TOKEN or quote(token, safe="") != token):
        raise ValueError(f"--token: {LEAST_TOKEN} characters or more, of letters, digits and -._~")
    listening = _listen(given.host, given.port)
    port = listening.getsockname()[1]
    app = create_app(runs, token=token, loopback=loopback, cookie=f"lego_verl_{port}")
    for run in runs.all().values():
        app.state.shared.indexer.want(run)
    url = _address(given.host, port, token, tuple(runs.all()))
    print(f"dashboard: {url}", flush=True)
    if loopback:
        print(f"over ssh: ssh -L {port}:127.0.0.1:{port} HOST, then the same address; Ctrl-C ends it", flush=True)
    if not given.no_browser and loopback and _has_screen():
        threading.Timer(0.5, webbrowser.open, [url]).start()
    # No access log: the first request's address holds the token.
    config = uvicorn.Config(
        app, log_level="warning", access_log=False, timeout_graceful_shutdown=5, server_header=False
    )
    server = uvicorn.Server(config)
    ended = server.handle_exit

    def end(sig: int, frame: FrameType | None) -> None:
        app.state.shared.ending.set()
        ended(sig, frame)

    server.handle_exit = end  # type: ignore[method-assign]
    server.run(sockets=[listening])
    return 0


def _listen(host: str, port: int | None) -> socket.socket:
    """A socket that listens, so that the address can be said before the server is up. OSError where none is free."""
    tried = [port] if port is not None else range(_PORT, _PORT + _TRIED)
    problem: OSError | None = None
    for each in tried:
        try:
            family, kind, protocol, _, address = socket.getaddrinfo(host, each, type=socket.SOCK_STREAM)[0]
            made = socket.socket(family, kind, protocol)
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                made.bind(address)
            except OSError:
                made.close()
                raise
            made.listen(128)
            return made
        except OSError as error:
            problem = error
    raise OSError(f"{host}, port {' to '.join({str(tried[0]), str(tried[-1])})}: {problem}")


def _address(host: str, port: int, token: str | None, names: Sequence[str]) -> str:
    shown = socket.gethostname() if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    asked = f"?token={token}" if token else ""
    where = f"#/run/{quote(names[0], safe='')}/overview" if len(names) == 1 else ""
    return f"http://{shown}:{port}/{asked}{where}"


def _has_screen() -> bool:
    return sys.platform in ("darwin", "win32") or bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def _told(code: int, why: str) -> int:
    print(f"lego_verl: {why}", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())

"""A dashboard in a thread of the tests."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import uvicorn

from lego_verl.dashboard.__main__ import _listen
from lego_verl.dashboard.app import create_app
from lego_verl.dashboard.runs import Runs


class Served:
    """A dashboard in a thread; ``port`` 0: any that is free."""

    def __init__(self, runs: list[Path], *, port: int = 0, **how: Any) -> None:
        self._socket = _listen("127.0.0.1", port)
        self.port = int(self._socket.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self.app = create_app(Runs(runs), **how)
        config = uvicorn.Config(self.app, log_level="warning", access_log=False, timeout_graceful_shutdown=5)
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)

    def __enter__(self) -> Served:
        self._thread.start()
        wait_until(lambda: self._server.started)
        return self

    def __exit__(self, *_: object) -> None:
        self.app.state.shared.ending.set()
        self._server.should_exit = True
        self._thread.join(timeout=15)
        self._socket.close()


def wait_until(holds: Callable[[], object], seconds: float = 30.0) -> None:
    """Until something holds, looked at often; AssertionError when it does not in time."""
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come to hold in time"
        time.sleep(0.02)

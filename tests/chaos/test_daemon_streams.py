"""A daemon that goes away in the middle of what it says does not answer: whatever the SDK makes of that."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator

import pytest

from sandbox.docker_host import DaemonGone, DockerHost

_HALVES = {
    "in a chunk": b'14\r\n{"status":',
    "between chunks": b'c\r\n{"status":1}\r\n',
    "in an object": b'a\r\n{"status":\r\n0\r\n\r\n',
}


@pytest.fixture
def daemon_that_breaks_off(request: pytest.FixtureRequest) -> Iterator[str]:
    """The address of one that answers what it is, and then only half of what it is asked for."""
    version = json.dumps({"ApiVersion": "1.45", "Version": "28.0", "Os": "linux"}).encode()

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                asked = connection.recv(1 << 16).split()[1]
                head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                if asked.endswith(b"/version"):
                    connection.sendall(head + b"Content-Length: %d\r\n\r\n%s" % (len(version), version))
                else:
                    connection.sendall(head + b"Transfer-Encoding: chunked\r\n\r\n" + request.param)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
    thread.join()


@pytest.mark.parametrize("daemon_that_breaks_off", _HALVES.values(), ids=_HALVES.keys(), indirect=True)
async def test_half_of_an_answer(daemon_that_breaks_off: str) -> None:
    host = DockerHost(daemon_that_breaks_off)
    with pytest.raises(DaemonGone, match="does not answer") as caught:
        await host.call(lambda api: list(api.pull("image", tag="1", stream=True, decode=True)))
    assert "\n" not in str(caught.value)

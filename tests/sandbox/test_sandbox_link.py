"""The only way out: a fixed address inside, the trial's unix socket outside."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from sandbox_helpers import Start, output

from sandbox.local import LocalBackend, LocalSandbox
from sandbox.sandbox import SandboxError


class Service:
    """A server of the host's on a unix socket, as the proxy is."""

    def __init__(self) -> None:
        self.aborted = asyncio.Event()
        self.hold = asyncio.Event()
        self.holding = asyncio.Event()
        self.seen = asyncio.Semaphore(1)

    async def echo(self, request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    async def events(self, request: web.Request) -> web.StreamResponse:
        """Each is sent only when the client says that it has the one before."""
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for number in range(3):
            await self.seen.acquire()
            await response.write(f"data: {number}\n\n".encode())
        return response

    async def has_seen(self, request: web.Request) -> web.Response:
        self.seen.release()
        return web.Response()

    async def wait(self, request: web.Request) -> web.Response:
        self.holding.set()
        try:
            await self.hold.wait()
        except asyncio.CancelledError:
            self.aborted.set()
            raise
        return web.Response(text="held")

    async def serve(self, path: Path) -> web.AppRunner:
        application = web.Application(client_max_size=32 << 20)
        application.router.add_post("/echo", self.echo)
        application.router.add_get("/events", self.events)
        application.router.add_get("/seen", self.has_seen)
        application.router.add_get("/wait", self.wait)
        runner = web.AppRunner(application, handler_cancellation=True)
        await runner.setup()
        await web.UnixSite(runner, str(path)).start()
        path.chmod(0o666)
        return runner


@pytest.fixture
async def service(backend: LocalBackend) -> AsyncIterator[tuple[Service, Path]]:
    service = Service()
    path = backend.scratch.folder("run", "trial") / "link.sock"
    runner = await service.serve(path)
    yield service, path
    service.hold.set()
    await runner.cleanup()


@pytest.fixture
async def linked(service: tuple[Service, Path], start: Start) -> LocalSandbox:
    return await start(link=service[1])


_POST = """
import sys, urllib.request
url, size, times = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
body = bytes(range(256)) * (size // 256)
for _ in range(times):
    with urllib.request.urlopen(url + "/echo", body, timeout=30) as reply:
        assert reply.read() == body
print("same")
"""


async def test_bodies_pass_unharmed(linked: LocalSandbox) -> None:
    assert linked.base_url is not None
    for size in (256, 200 << 10, 16 << 20):
        done = await linked.exec(["python3", "-c", _POST, linked.base_url, str(size), "2"], deadline=60)
        assert done.output == b"same\n"


async def test_events_come_as_they_are_sent(linked: LocalSandbox) -> None:
    script = """
import sys, urllib.request
with urllib.request.urlopen(sys.argv[1] + "/events", timeout=30) as reply:
    while line := reply.readline():
        if line.strip():
            print(line.decode().strip())
            urllib.request.urlopen(sys.argv[1] + "/seen", timeout=30).close()
"""
    assert linked.base_url is not None
    done = await linked.exec(["python3", "-c", script, linked.base_url], deadline=60)
    assert done.output.decode().splitlines() == ["data: 0", "data: 1", "data: 2"]


async def test_many_sandboxes_at_once(backend: LocalBackend, service: tuple[Service, Path], start: Start) -> None:
    count = 20 if isinstance(backend, LocalBackend) else 6
    sandboxes = await asyncio.gather(*(start(trial=f"t{n}", link=service[1]) for n in range(count)))
    done = await asyncio.gather(
        *(s.exec(["python3", "-c", _POST, str(s.base_url), str(50 << 10), "5"], deadline=60) for s in sandboxes)
    )
    assert [result.output for result in done] == [b"same\n"] * count


async def test_many_connections_of_one_sandbox(linked: LocalSandbox) -> None:
    script = """
import sys, threading, urllib.request
def ask():
    body = b"x" * 100_000
    assert urllib.request.urlopen(sys.argv[1] + "/echo", body, timeout=30).read() == body
    print("same")
threads = [threading.Thread(target=ask) for _ in range(50)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    done = await linked.exec(["python3", "-c", script, str(linked.base_url)], deadline=60)
    assert done.output.split() == [b"same"] * 50


async def test_a_client_that_goes_away_is_seen_by_the_server(
    service: tuple[Service, Path], linked: LocalSandbox
) -> None:
    script = f"import urllib.request; urllib.request.urlopen('{linked.base_url}/wait', timeout=60)"
    asking = asyncio.create_task(linked.exec(["python3", "-c", script], deadline=60))
    await service[0].holding.wait()
    asking.cancel()
    await service[0].aborted.wait()


async def test_a_slow_server_holds_nothing_else_up(service: tuple[Service, Path], linked: LocalSandbox) -> None:
    script = f"import urllib.request; print(urllib.request.urlopen('{linked.base_url}/wait').read().decode())"
    waiting = asyncio.create_task(linked.exec(["python3", "-c", script], deadline=60))
    await service[0].holding.wait()
    await linked.put({"/tmp/x": b"x"})
    service[0].hold.set()
    assert (await waiting).output == b"held\n"


async def test_a_link_whose_server_is_gone_refuses(backend: LocalBackend, start: Start) -> None:
    path = backend.scratch.folder("run", "gone") / "link.sock"
    runner = await Service().serve(path)
    kept = path.with_suffix(".kept")
    path.rename(kept)  # the server removes only its own name
    sandbox = await start(link=kept)
    await runner.cleanup()
    script = f"import urllib.request; urllib.request.urlopen('{sandbox.base_url}/events', timeout=10)"
    seen = await output(sandbox, f'python3 -c "{script}" 2>&1')
    assert "RemoteDisconnected" in seen or "Connection reset" in seen


async def test_without_a_link_there_is_no_address(sandbox: LocalSandbox) -> None:
    assert sandbox.base_url is None
    assert await output(sandbox, "ls /run 2>&1; cat /proc/net/tcp | wc -l") == (
        "ls: cannot access '/run': No such file or directory\n1"
    )


async def test_a_closed_link_is_refused_in_words(backend: LocalBackend, start: Start) -> None:
    path = backend.scratch.folder("run", "closed") / "link.sock"
    runner = await Service().serve(path)
    path.chmod(0o600)
    if os.geteuid() == 0:
        with pytest.raises(SandboxError, match="chmod 666"):
            await start(link=path)
    await runner.cleanup()

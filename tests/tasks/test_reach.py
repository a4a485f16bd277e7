"""What can be reached from inside a trial while another one runs: its own session, and nothing else.

Everything that is looked for is really there: a listener on every address of the host, sockets that anybody may
open, a docker daemon, and a second trial with a session, a port, a file and a process of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from cheating_fixtures import LIMITS, Arena

from lego_verl.capture.bytelevel import byte_renderer
from lego_verl.capture.parser import HermesParser
from lego_verl.policies.scripted import ScriptedPolicy
from lego_verl.proxy.server import ProxyServer
from lego_verl.proxy.session import Session
from sandbox.sandbox import Image, Sandbox, SandboxSpec

SECRET = "the-other-trials-own"
_OTHER = """
import http.server, os
open("/tmp/mine", "w").write(os.environ["SECRET"])
http.server.HTTPServer(("0.0.0.0", 7777), http.server.BaseHTTPRequestHandler).serve_forever()
"""
_LOOK = r"""
import json, os, socket, subprocess, sys, urllib.error, urllib.request
given = json.load(sys.stdin)
seen = {"own": "", "session": [], "ports": [], "sockets": [], "names": [], "secrets": [], "pids": []}

def ask(path, host=None):
    body = json.dumps({"model": "policy", "messages": [{"role": "user", "content": "who is there?"}]}).encode()
    request = urllib.request.Request(given["url"] + path, body, {"Content-Type": "application/json"})
    if host:
        request.add_header("Host", host)
    with urllib.request.urlopen(request, timeout=20) as reply:
        return json.load(reply)["choices"][0]["message"]["content"]

seen["own"] = ask("/v1/chat/completions")
other = given["other_session"]
for path in ("/s/%s/v1/chat/completions", "/v1/../s/%s/v1/chat/completions", "//s/%s/v1/chat/completions",
             "/s/me/../%s/v1/chat/completions", "/s/%%2e%%2e/s/%s/v1/chat/completions"):
    try:
        seen["session"].append(ask(path % other))
    except (urllib.error.URLError, OSError, ValueError):
        pass
try:
    seen["session"].append(ask("/v1/chat/completions", host=other + ".localhost"))
except (urllib.error.URLError, OSError, ValueError):
    pass

def reached(family, address):
    with socket.socket(family) as connection:
        connection.settimeout(0.5)
        try:
            connection.connect(address)
        except OSError:
            return False
        return True

for host in given["hosts"]:
    for port in given["ports"]:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        if reached(family, (host, port)):
            seen["ports"].append([host, port])
for path in given["sockets"]:
    if reached(socket.AF_UNIX, path.replace("@", "\0", 1)):
        seen["sockets"].append(path)
found = subprocess.run(["find", "/", "-xdev", "-type", "s"], capture_output=True, text=True).stdout.split()
seen["sockets"] += [path for path in found if path != "/run/lego/link.sock"]
for name in ("localhost.localdomain", "example.com", "metadata.google.internal", "host.docker.internal"):
    try:
        socket.getaddrinfo(name, 80)
        seen["names"].append(name)
    except OSError:
        pass
for folder in ("/tmp", "/var/tmp", "/home", "/run", "/logs", "/solution", "/dev/shm", "/testbed"):
    done = subprocess.run(["grep", "-rls", "--", given["secret"], folder], capture_output=True, text=True)
    seen["secrets"] += done.stdout.split()
for pid in [name for name in os.listdir("/proc") if name.isdigit()]:
    for file in ("environ", "cmdline"):
        try:
            with open(f"/proc/{pid}/{file}", "rb") as content:
                if given["secret"].encode() in content.read():
                    seen["secrets"].append(f"/proc/{pid}/{file}")
        except OSError:
            pass
    if int(pid) not in (1, os.getpid()):
        seen["pids"].append(pid)
print(json.dumps(seen))
"""


@contextlib.contextmanager
def listeners(folder: Path) -> Iterator[dict[str, Any]]:
    """On the host: every address, a path, an abstract name."""
    with (
        contextlib.closing(socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True)) as port,
        socket.socket(socket.AF_UNIX) as named,
        socket.socket(socket.AF_UNIX) as abstract,
    ):
        path = folder / "host.sock"
        named.bind(str(path))
        path.chmod(0o666)
        abstract.bind(f"\0{path}")
        for each in (named, abstract):
            each.listen()
        yield {"ports": [port.getsockname()[1]], "sockets": [str(path), f"@{path}"]}


@pytest.fixture
async def server() -> AsyncIterator[ProxyServer]:
    server = ProxyServer()
    await server.start()
    yield server
    await server.stop()


def session(name: str) -> Session:
    renderer, parser = byte_renderer(), HermesParser()
    policy = ScriptedPolicy([{"text": f"this is {name}"}], renderer=renderer, parser=parser)
    return Session(name, policy, renderer=renderer, parser=parser)


def addresses() -> list[str]:
    """Of this machine, and those where clouds and engines have something."""
    own = [each.address.partition("%")[0] for of in psutil.net_if_addrs().values() for each in of]
    ours = [address for address in own if address.count(".") == 3 or address.count(":") > 1]
    far = ["169.254.169.254", "100.100.100.200", "fd00:ec2::254", "172.17.0.1", "10.0.2.2", "192.0.2.1"]
    return [*dict.fromkeys(["127.0.0.1", "::1", *(each for each in ours if len(each) != 17)]), *far]


async def test_a_trial_reaches_its_own_session_and_nothing_else(
    any_arena: Arena, server: ProxyServer, daemon: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    arena, folder = any_arena, any_arena.folder
    task = arena.tasks[0]

    async def start(name: str) -> Sandbox:
        link = arena.backend.scratch.folder("reach", name) / "s"
        await server.open(session(name), socket=link)
        image = Image(task.environment, task.image, task.workdir)
        return await arena.backend.start(SandboxSpec("reach", name, image, link=link, limits=LIMITS))

    me, other = await asyncio.gather(start("me"), start("other"))
    try:
        busy = asyncio.create_task(other.exec(["python3", "-c", _OTHER], deadline=60, env={"SECRET": SECRET}))
        with listeners(folder) as there:
            given = {
                "url": me.base_url,
                "other_session": "other",
                "hosts": addresses(),
                "ports": [*there["ports"], server.port, 7777, 80],
                "sockets": [*there["sockets"], daemon.removeprefix("unix://"), "/var/run/docker.sock",
                            str(arena.backend.scratch.folder("reach", "other") / "s")],
                "secret": SECRET,
            }  # fmt: skip
            look = ["python3", "-I", "-c", _LOOK]
            done = await me.exec(look, deadline=60, stdin=json.dumps(given).encode())
        assert done.exit_code == 0, done.output.decode()
        assert not busy.done(), "the other trial was there all the time"
        assert await other.get("/tmp/mine") == SECRET.encode()
        seen = json.loads(done.output)
        assert seen.pop("own") == "this is me"
        assert set(seen.pop("session")) <= {"this is me"}, "whatever is asked for, it answers"
        assert {what: found for what, found in seen.items() if found} == {}
        assert server.sessions["other"].turns == 0
    finally:
        busy.cancel()
        await asyncio.gather(me.close(), other.close())


def test_what_is_looked_for_is_there(tmp_path: Path) -> None:
    """Outside of a sandbox the same sockets are open."""
    with listeners(tmp_path) as there:
        for address in ("127.0.0.1", "::1"):
            socket.create_connection((address, there["ports"][0]), timeout=5).close()
        for path in there["sockets"]:
            with socket.socket(socket.AF_UNIX) as connection:
                connection.connect(path.replace("@", "\0", 1))

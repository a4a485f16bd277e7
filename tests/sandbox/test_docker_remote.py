"""A daemon that is reached over TCP or ssh: nothing is assumed of it but its API."""

from __future__ import annotations

import asyncio
import os
import ssl
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web
from sandbox_helpers import busy, output

from sandbox.docker import DockerBackend
from sandbox.docker_sandbox import DockerSandbox
from sandbox.sandbox import Image, Mount, SandboxError, SandboxLost, SandboxSpec, SandboxUnavailable

_POST = """
import sys, threading, urllib.request
def ask():
    body = bytes(range(256)) * (int(sys.argv[2]) // 256)
    with urllib.request.urlopen(sys.argv[1] + "/echo", body, timeout=30) as reply:
        assert reply.read() == body
    print("same")
threads = [threading.Thread(target=ask) for _ in range(int(sys.argv[3]))]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
_SSH = """#!{python}
# Stands in for ssh: makes the forwarding that it is asked for, until its input ends.
import asyncio, sys
near, far = sys.argv[sys.argv.index("-L") + 1].split(":")
async def pump(reader, writer):
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
async def carry(reader, writer):
    far_reader, far_writer = await asyncio.open_unix_connection(far)
    await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer), return_exceptions=True)
async def main():
    async with await asyncio.start_unix_server(carry, near):
        await asyncio.to_thread(sys.stdin.read)
asyncio.run(main())
"""


@asynccontextmanager
async def port_to(daemon: str, context: ssl.SSLContext | None = None) -> AsyncIterator[str]:
    """The address of a port that leads to the daemon."""
    writers: list[asyncio.StreamWriter] = []

    async def pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(1 << 16):
                writer.write(data)
                await writer.drain()
        except ConnectionError:
            pass
        writer.close()

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_unix_connection(daemon.removeprefix("unix://"))
        writers.extend((writer, far_writer))
        await asyncio.gather(pump(reader, far_writer), pump(far_reader, writer))

    server = await asyncio.start_server(carry, "127.0.0.1", 0, ssl=context)
    yield f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    for writer in writers:
        writer.transport.abort()
    server.close()


@pytest.fixture
async def over_tcp(daemon: str) -> AsyncIterator[str]:
    async with port_to(daemon) as url:
        yield url


@pytest.fixture
async def link(open_tmp: Path) -> AsyncIterator[Path]:
    """A server of the trainer's."""

    async def echo(request: web.Request) -> web.Response:
        return web.Response(body=await request.read())

    application = web.Application(client_max_size=64 << 20)
    application.router.add_post("/echo", echo)
    runner = web.AppRunner(application)
    await runner.setup()
    path = open_tmp / "link.sock"
    await web.UnixSite(runner, str(path)).start()
    path.chmod(0o666)
    yield path
    await runner.cleanup()


@pytest.fixture
async def remote(over_tcp: str, link: Path, open_tmp: Path) -> AsyncIterator[DockerSandbox]:
    (open_tmp / "tool" / "deep").mkdir(parents=True)
    (open_tmp / "tool" / "deep" / "file").write_text("copied")
    (open_tmp / "tool" / "run").write_text("#!/bin/sh\necho ran\n")
    (open_tmp / "tool" / "run").chmod(0o755)
    backend = DockerBackend([over_tcp], scratch=open_tmp / "s")
    mounts = [Mount(open_tmp / "tool", "/opt/lego/tool")]
    sandbox = await backend.start(SandboxSpec("remote", "trial", Image(), mounts=mounts, link=link))
    yield sandbox
    await sandbox.close()


async def test_commands_and_files(remote: DockerSandbox) -> None:
    data = os.urandom(2 << 20)
    assert (await remote.exec(["cat"], deadline=30, stdin=data)).output == data
    await remote.put({"/tmp/x": data})
    assert await remote.get("/tmp/x") == data
    assert (await remote.exec(["sleep", "100"], deadline=0.3)).timed_out


async def test_mounted_folders_are_copied_and_nothing_of_ours_is_mounted(remote: DockerSandbox) -> None:
    assert await output(remote, "cat /opt/lego/tool/deep/file; /opt/lego/tool/run") == "copiedran"
    assert "Read-only" in await output(remote, "touch /opt/lego/tool/x 2>&1")
    seen = await remote._host.call(lambda api: api.inspect_container(remote.name))
    assert {mount["Type"] for mount in seen["Mounts"]} == {"volume"}


async def test_a_folder_is_copied_once(over_tcp: str, remote: DockerSandbox, open_tmp: Path) -> None:
    def volumes(api) -> set[str]:  # type: ignore[no-untyped-def]
        found = api.volumes(filters={"label": f"lego.mount={(open_tmp / 'tool').resolve()}"})["Volumes"]
        return {volume["Name"] for volume in found or ()}

    before = await remote._host.call(volumes)
    backend = DockerBackend([over_tcp], scratch=open_tmp / "s")
    mounts = [Mount(open_tmp / "tool", "/opt/elsewhere")]
    again = await backend.start(SandboxSpec("remote", "again", Image(), mounts=mounts))
    assert await output(again, "/opt/elsewhere/run") == "ran"
    await again.close()
    assert await remote._host.call(volumes) == before
    assert len(before) == 1


async def test_the_link_goes_over_the_channel(remote: DockerSandbox) -> None:
    assert remote.base_url is not None
    for size, times in ((256, 1), (4 << 20, 2), (50 << 10, 20)):
        done = await remote.exec(["python3", "-c", _POST, remote.base_url, str(size), str(times)], deadline=60)
        assert done.output.split() == [b"same"] * times
    assert await output(remote, "find / -xdev -type s 2>/dev/null | wc -l") == "0"


async def test_a_client_that_goes_away_is_seen_by_the_server(over_tcp: str, open_tmp: Path) -> None:
    arrived, left = asyncio.Event(), asyncio.Event()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        arrived.set()
        await reader.read()
        left.set()
        writer.close()

    path = open_tmp / "raw.sock"
    server = await asyncio.start_unix_server(serve, path)
    path.chmod(0o666)
    sandbox = await DockerBackend([over_tcp], scratch=open_tmp / "s").start(
        SandboxSpec("remote", "trial", Image(), link=path)
    )
    script = f"import urllib.request; urllib.request.urlopen('{sandbox.base_url}/hang', timeout=60)"
    asking = asyncio.create_task(sandbox.exec(["python3", "-c", script], deadline=60))
    await arrived.wait()
    asking.cancel()
    await left.wait()
    await sandbox.close()
    server.close()


async def test_a_link_whose_server_is_gone_refuses(over_tcp: str, link: Path, open_tmp: Path) -> None:
    sandbox = await DockerBackend([over_tcp], scratch=open_tmp / "s").start(
        SandboxSpec("remote", "trial", Image(), link=link)
    )
    link.rename(link.with_suffix(".gone"))
    script = f"import urllib.request; urllib.request.urlopen('{sandbox.base_url}/echo', timeout=10)"
    seen = await output(sandbox, f'python3 -c "{script}" 2>&1')
    assert "RemoteDisconnected" in seen or "Connection reset" in seen
    link.with_suffix(".gone").rename(link)
    await sandbox.close()


async def test_only_folders_can_be_copied(over_tcp: str, open_tmp: Path) -> None:
    (open_tmp / "file").write_text("x")
    backend = DockerBackend([over_tcp], scratch=open_tmp / "s")
    with pytest.raises(SandboxError, match="only folders are copied"):
        await backend.start(SandboxSpec("remote", "t", Image(), mounts=[Mount(open_tmp / "file", "/opt/file")]))


def _certificates(folder: Path) -> None:
    """Somebody who is trusted, and what he says of the daemon (``server``) and of us (no name before)."""
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2"]
    trusted = ["-CA", "ca.pem", "-CAkey", "ca-key.pem", "-addext", "subjectAltName=IP:127.0.0.1"]
    for name, more in (("ca", []), ("server-", trusted), ("", trusted)):
        names = ("ca-key.pem", "ca.pem") if name == "ca" else (f"{name}key.pem", f"{name}cert.pem")
        command = ["openssl", "req", "-x509", *key, "-subj", f"/CN=lego {name}", "-keyout", names[0], "-out", names[1]]
        subprocess.run([*command, *more], cwd=folder, check=True, capture_output=True)


async def test_over_tls(daemon: str, open_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _certificates(open_tmp)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(open_tmp / "ca.pem"))
    context.load_cert_chain(open_tmp / "server-cert.pem", open_tmp / "server-key.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    async with port_to(daemon, context) as url:
        with pytest.raises(SandboxUnavailable, match="does not answer"):
            await DockerBackend([url]).check()
        monkeypatch.setenv("DOCKER_TLS_VERIFY", "1")
        monkeypatch.setenv("DOCKER_CERT_PATH", str(open_tmp))
        sandbox = await DockerBackend([url], scratch=open_tmp / "s").start(SandboxSpec("remote", "trial", Image()))
        assert await output(sandbox, "echo in secret") == "in secret"
        await sandbox.close()


async def test_over_ssh(daemon: str, open_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (open_tmp / "ssh").write_text(_SSH.format(python=sys.executable))
    (open_tmp / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{open_tmp}:{os.environ['PATH']}")
    backend = DockerBackend([f"ssh://me@somewhere:2222{daemon.removeprefix('unix://')}"], scratch=open_tmp / "s")
    await backend.check()
    sandbox = await backend.start(SandboxSpec("remote", "trial", Image()))
    assert await output(sandbox, "echo over there") == "over there"
    tunnel = backend.hosts[0]._tunnel
    assert tunnel is not None
    running = await busy(sandbox)
    tunnel._end()  # the connection breaks
    with pytest.raises(SandboxLost):
        await running
    await sandbox.close()  # over a new one
    again = await backend.start(SandboxSpec("remote", "trial", Image()))
    assert await output(again, "echo and again") == "and again"
    await again.close()
    assert await backend.left("remote") == []


async def test_ssh_that_does_not_get_there(open_tmp: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (open_tmp / "ssh").write_text("#!/bin/sh\necho 'Permission denied (publickey).' >&2\nexit 255\n")
    (open_tmp / "ssh").chmod(0o755)
    monkeypatch.setenv("PATH", f"{open_tmp}:{os.environ['PATH']}")
    with pytest.raises(SandboxUnavailable, match=r"ssh://somewhere does not answer: ssh: Permission denied"):
        await DockerBackend(["ssh://somewhere"]).check()

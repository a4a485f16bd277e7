"""Images of a registry: a small one that the test itself is, with one image."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import tarfile
import uuid
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from sandbox.docker import DockerBackend
from sandbox.docker_build import resolve
from sandbox.sandbox import ImageMissing

_MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"


def _digest(data: bytes) -> str:
    return f"sha256:{hashlib.sha256(data).hexdigest()}"


class Registry:
    """Serves one image, under any name, as ``:there`` or by its digest."""

    def __init__(self) -> None:
        layer = io.BytesIO()
        with tarfile.open(fileobj=layer, mode="w") as tar:
            tar.addfile(tarfile.TarInfo(f"file-{uuid.uuid4().hex}"))
        packed = gzip.compress(layer.getvalue())
        config = {"architecture": "amd64", "os": "linux", "config": {}, "rootfs": {"type": "layers", "diff_ids": []}}
        config["rootfs"]["diff_ids"].append(_digest(layer.getvalue()))  # type: ignore[index]
        whole = json.dumps(config).encode()
        self._blobs = {_digest(packed): packed, _digest(whole): whole}
        kinds = (("application/vnd.docker.container.image.v1+json", whole), (f"{_MANIFEST}.tar", packed))
        parts = [{"mediaType": kind, "size": len(data), "digest": _digest(data)} for kind, data in kinds]
        parts[1]["mediaType"] = "application/vnd.docker.image.rootfs.diff.tar.gzip"
        manifest = {"schemaVersion": 2, "mediaType": _MANIFEST, "config": parts[0], "layers": parts[1:]}
        self.manifest = json.dumps(manifest).encode()
        self.id, self.digest, self.asked = _digest(whole), _digest(self.manifest), 0

    async def answer(self, request: web.BaseRequest) -> web.Response:
        self.asked += 1
        *_, kind, name = request.path.split("/")
        if request.path == "/v2/":
            return web.Response()
        if kind == "manifests" and name in ("there", self.digest):
            headers = {"Docker-Content-Digest": self.digest}
            return web.Response(body=self.manifest, content_type=_MANIFEST, headers=headers)
        if kind == "blobs" and name in self._blobs:
            return web.Response(body=self._blobs[name])
        error = {"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}
        return web.json_response({"errors": [error]}, status=404)


@pytest.fixture
async def registry() -> AsyncIterator[tuple[Registry, str]]:
    """It, and how images there are called. A daemon of this machine takes one at 127.0.0.1 without TLS."""
    registry = Registry()
    runner = web.ServerRunner(web.Server(registry.answer))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    yield registry, f"127.0.0.1:{runner.addresses[0][1]}/some/image"
    await runner.cleanup()


async def test_an_image_is_pulled_once(backend: DockerBackend, registry: tuple[Registry, str]) -> None:
    served, name = registry
    host = backend.hosts[0]
    try:
        assert await resolve(host, f"{name}:there") == served.id
        asked = served.asked
        assert await resolve(host, f"{name}:there") == served.id
        assert served.asked == asked > 0
    finally:
        await host.call(lambda api: api.remove_image(f"{name}:there"))


async def test_an_image_is_pulled_by_its_digest(backend: DockerBackend, registry: tuple[Registry, str]) -> None:
    served, name = registry
    host = backend.hosts[0]
    try:
        assert await resolve(host, f"{name}@{served.digest}") == served.id
    finally:
        await host.call(lambda api: api.remove_image(served.id))


async def test_an_image_that_a_registry_does_not_have(backend: DockerBackend, registry: tuple[Registry, str]) -> None:
    _, name = registry
    with pytest.raises(
        ImageMissing, match=rf"{name}:gone is not on .* and cannot be pulled: .*manifest unknown"
    ) as said:
        await resolve(backend.hosts[0], f"{name}:gone")
    assert "\n" not in str(said.value)


async def test_a_registry_that_does_not_answer(backend: DockerBackend) -> None:
    with pytest.raises(ImageMissing, match=r"127.0.0.1:1/some/image:1 is not on .* and cannot be pulled"):
        await resolve(backend.hosts[0], "127.0.0.1:1/some/image:1")

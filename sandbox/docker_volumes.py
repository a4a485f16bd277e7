"""Folders of this machine on a daemon that does not share its files: copied there once, into a named volume.

A volume is known by what is in the folder, so it is never out of date, and is kept for the next run, as images
are (``docker_prune`` removes both).
"""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from sandbox.docker_host import DockerHost
from sandbox.sandbox import Mount, SandboxError
from sandbox.tree import pack_folder, signature

COPIED = "lego.mount"
"""The label of every volume that is made here: which folder it is a copy of."""
_AT = "/lego-mount"
_COMPLETE = ".lego-complete"


class DockerVolumes:
    """The copies on one daemon."""

    def __init__(self, host: DockerHost) -> None:
        self._host = host
        self._ready: set[str] = set()
        self._making: dict[str, asyncio.Lock] = {}

    async def copied(self, mounts: tuple[Mount, ...], image: str) -> dict[str, str]:
        """The volumes that stand for these mounts, by where they are seen. ``image``: any that the daemon has.

        Raises:
            SandboxError: for a mount that is no folder, and when it cannot be copied.
        """
        return {mount.target: await self._copy(mount, image) for mount in mounts}

    async def _copy(self, mount: Mount, image: str) -> str:
        source = mount.source.resolve()
        if not source.is_dir():
            raise SandboxError(f"{source} cannot be mounted at {mount.target}: only folders are copied to {self._host}")
        name = f"lego-mount-{(await asyncio.to_thread(signature, source))[:32]}"
        async with self._making.setdefault(name, asyncio.Lock()):
            if name not in self._ready:
                await self._host.call(lambda api: _fill(api, self._host.new_name(), name, source, image))
                self._ready.add(name)
        return name


def _fill(api: Any, helper: str, volume: str, source: Path, image: str) -> None:
    """Through a container that is never started: what is copied into it lands in the volume."""
    api.create_volume(name=volume, labels={COPIED: str(source)})
    host = api.create_host_config(
        network_mode="none", mounts=[{"Type": "volume", "Source": volume, "Target": _AT, "ReadOnly": False}]
    )
    api.create_container(image, ["true"], name=helper, host_config=host)
    try:
        if not _is_complete(api, helper):
            with tempfile.TemporaryFile() as file:
                file.write(pack_folder(source, "/"))
                file.seek(0)
                if not api.put_archive(helper, _AT, file):
                    raise SandboxError(f"{source} could not be copied into the volume {volume}")
            with tempfile.TemporaryDirectory() as folder:
                Path(folder, _COMPLETE).touch()
                api.put_archive(helper, _AT, pack_folder(Path(folder), "/"))
    finally:
        api.remove_container(helper, force=True)


def _is_complete(api: Any, helper: str) -> bool:
    from docker.errors import NotFound

    try:
        stream, _ = api.get_archive(helper, f"{_AT}/{_COMPLETE}")
        for _ in stream:  # to its end, or the connection stays open
            pass
    except NotFound:
        return False
    return True

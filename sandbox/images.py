"""Images of the local backend: an environment folder made into a file tree, once, in memory.

The repository in it is hardened here (see ``hardening.py``), in a sandbox of its own, so that each
trial's start is no more than unpacking a finished tree.
"""

from __future__ import annotations

import asyncio
import io
import posixpath
import tarfile
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace

from sandbox.dockerfile import Recipe, read_dockerfile
from sandbox.hardening import harden
from sandbox.sandbox import ImageMissing, Limits, Sandbox, SandboxSpec
from sandbox.tree import InMemory, pack_recipe, signature

_READ_ONLY = ("usr", "etc", "bin", "sbin", "lib", "lib32", "lib64", "libx32", "proc", "dev", "run")
_PREPARE_SECONDS = 300.0
_MIB = 1 << 20


@dataclass(frozen=True)
class PreparedImage:
    """What a sandbox unpacks at its start."""

    tree: InMemory | None = None
    """A tar relative to the root."""
    env: Mapping[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        """Bytes of memory."""
        return 0 if self.tree is None else self.tree.size


StartFrom = Callable[[SandboxSpec, PreparedImage], Awaitable[Sandbox]]


class LocalImages:
    """Prepared images by content; the least recently used go when they hold more than ``capacity_mb``."""

    def __init__(self, start_from: StartFrom, *, capacity_mb: int = 1024) -> None:
        self._start_from = start_from
        self._capacity = capacity_mb * _MIB
        self._ready: OrderedDict[tuple[str, str], PreparedImage] = OrderedDict()
        self._making: dict[tuple[str, str], asyncio.Task[PreparedImage]] = {}

    async def prepare(self, spec: SandboxSpec) -> PreparedImage:
        """The image of a spec, made once however many ask at the same time."""
        image = spec.image
        if not posixpath.isabs(image.workdir):
            raise ImageMissing(f"the workdir {image.workdir!r} is not an absolute path")
        if image.folder is None:
            if image.reference is not None:
                raise ImageMissing(
                    f"the local sandbox cannot use the container image {image.reference}; use sandbox=docker"
                )
            return self._empty(image.workdir)
        if not image.folder.is_dir():
            raise ImageMissing(f"the environment folder {image.folder} does not exist")
        if posixpath.normpath(image.workdir) == "/":  # all that there is would become its repository
            raise ImageMissing(
                f"{image.folder / 'Dockerfile'}: the workdir is /; put the repository into a folder of its own"
            )
        key = (await asyncio.to_thread(signature, image.folder), image.workdir)
        if key in self._ready:
            self._ready.move_to_end(key)
            return self._ready[key]
        task = self._making.get(key)
        if task is None or task.get_loop() is not asyncio.get_running_loop():
            task = self._making[key] = asyncio.create_task(self._make(spec))
            task.add_done_callback(lambda done: self._made(key, done))
        return await asyncio.shield(task)  # one who is cancelled does not take it from the others

    def _empty(self, workdir: str) -> PreparedImage:
        key = ("", workdir)
        if key not in self._ready:
            self._ready[key] = PreparedImage(InMemory(pack_recipe(Recipe(), [workdir])))
        return self._ready[key]

    def _made(self, key: tuple[str, str], task: asyncio.Task[PreparedImage]) -> None:
        self._making.pop(key, None)
        if task.cancelled() or task.exception() is not None:
            return  # whoever waits has been told; the next one tries again
        self._ready[key] = task.result()
        while (
            len(self._ready) > 1 and sum(each.tree.size for each in self._ready.values() if each.tree) > self._capacity
        ):
            self._ready.popitem(last=False)

    async def _make(self, spec: SandboxSpec) -> PreparedImage:
        assert spec.image.folder is not None
        recipe = read_dockerfile(spec.image.folder)
        tree = pack_recipe(recipe, [spec.image.workdir])
        raw = PreparedImage(InMemory(tree), recipe.env)
        with tarfile.open(fileobj=io.BytesIO(tree)) as tar:
            tops = sorted({member.name.split("/")[0] for member in tar})
        for top in tops:
            if top in _READ_ONLY:
                raise ImageMissing(
                    f"{spec.image.folder / 'Dockerfile'} puts files under /{top}, which the local sandbox "
                    "shows read-only; use sandbox=docker for this task"
                )
        room = 4 * (len(tree) // _MIB) + 64
        limits = Limits(memory_mb=4096, disk_mb=room, output_bytes=2 * room * _MIB)
        prepare = replace(spec, trial=f"{spec.trial}-image", mounts=(), link=None, limits=limits)
        sandbox = await self._start_from(prepare, raw)
        try:
            await harden(sandbox)
            packed = await sandbox.exec(
                ["tar", "--format=posix", "-C", "/", "-cf", "-", "--", *tops], deadline=_PREPARE_SECONDS, cwd="/"
            )
            if packed.exit_code != 0 or packed.dropped_bytes:
                raise ImageMissing(f"{spec.image.folder} could not be packed: {packed.output[-200:]!r}")
            return PreparedImage(InMemory(packed.output), recipe.env)
        finally:
            await sandbox.close()

"""Images on a daemon: from a task's folder or reference to one that a sandbox starts from at once.

What a sandbox starts from is the task's image and one layer more, made once and kept on the daemon by its
content. In it the repository has moved from the workdir to ``/opt/lego/base``, belongs to the agent, and is
hardened; each sandbox copies it into its own tmpfs. Nothing of this passes through the trainer.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from sandbox.docker_build import MADE, build_folder, host_image, resolve
from sandbox.docker_container import AGENT_UID, BASE, HOME, MACHINE, OWNER, RUN, TRIAL
from sandbox.docker_host import DockerHost, NotThere
from sandbox.hardening import harden
from sandbox.kept import KeptSandbox
from sandbox.sandbox import Image, ImageMissing, Limits, SandboxSpec
from sandbox.tree import signature

_FORMAT = 5
_CHANGES = ["ENTRYPOINT []", "CMD []", "USER 0", *(f'LABEL {name}=""' for name in (RUN, TRIAL, OWNER, MACHINE))]
"""What an image does not keep of the container it is made of: a container of somebody's own must not look like ours."""
_PREPARE_SECONDS = 600.0
_MOVE = r"""
set -eu
rm -rf "$2"
mkdir -p "$1" "$2"
cp -a "$1/." "$2"
find "$1" -mindepth 1 -delete
for file in passwd group; do
    grep -q "^[^:]*:[^:]*:$3:" /etc/$file 2>/dev/null && sed -i "/^[^:]*:[^:]*:$3:/d" /etc/$file
    sed -i '/^agent:/d' /etc/$file 2>/dev/null || true
done
echo "agent:x:$3:$3:agent:$4:/bin/bash" >>/etc/passwd
echo "agent:x:$3:" >>/etc/group
"""


@dataclass(frozen=True)
class DockerImage:
    """What a container is made from."""

    id: str
    raw: str
    """The id of the task's own image, which it is made of."""
    env: Mapping[str, str] = field(default_factory=dict)
    has_base: bool = False
    """Whether it holds the workdir's tree at ``BASE``; one that does not is only being prepared."""


StartOn = Callable[[DockerHost, SandboxSpec, DockerImage], Awaitable[KeptSandbox]]


class DockerImages:
    """Prepared images of one daemon."""

    def __init__(self, host: DockerHost, start_on: StartOn) -> None:
        self._host, self._start_on = host, start_on
        self._ready: dict[tuple[str, str], DockerImage] = {}
        self._making: dict[tuple[str, str], asyncio.Task[DockerImage]] = {}

    async def prepare(self, spec: SandboxSpec) -> DockerImage:
        """The image of a spec, made once however many ask at the same time."""
        image = spec.image
        if image.reference is None and image.folder is not None and not image.folder.is_dir():
            raise ImageMissing(f"the environment folder {image.folder} does not exist")
        content = image.reference or ""
        if image.reference is None and image.folder is not None:
            content = await asyncio.to_thread(signature, image.folder)
        key = (content, image.workdir)
        if key in self._ready:
            return self._ready[key]
        task = self._making.get(key)
        if task is None or task.get_loop() is not asyncio.get_running_loop():
            task = self._making[key] = asyncio.create_task(self._make(spec))
            task.add_done_callback(lambda done: self._made(key, done))
        return await asyncio.shield(task)  # one who is cancelled does not take it from the others

    def _made(self, key: tuple[str, str], task: asyncio.Task[DockerImage]) -> None:
        self._making.pop(key, None)
        if not task.cancelled() and task.exception() is None:
            self._ready[key] = task.result()

    def forget(self) -> None:
        """Look again for every image: the daemon may have lost some."""
        self._ready.clear()

    async def _make(self, spec: SandboxSpec) -> DockerImage:
        image = spec.image
        if image.reference is not None:
            raw = await resolve(self._host, image.reference)
        elif image.folder is not None:
            raw = await build_folder(self._host, image.folder)
        else:
            raw = await host_image(self._host)
        content = f"{_FORMAT} {raw} {image.workdir} {Path(__file__).with_name('hardening.py').read_text()}"
        tag = hashlib.sha256(content.encode()).hexdigest()[:32]
        try:
            return await self._prepared(tag, raw)
        except NotThere:
            await self._harden(spec, raw, tag)
            return await self._prepared(tag, raw)

    async def _prepared(self, tag: str, raw: str) -> DockerImage:
        seen = await self._host.call(lambda api: api.inspect_image(f"lego/prepared:{tag}"))
        env = dict(line.split("=", 1) for line in seen["Config"].get("Env") or () if "=" in line)
        return DockerImage(seen["Id"], raw, env, has_base=True)

    async def _harden(self, spec: SandboxSpec, raw: str, tag: str) -> None:
        image = spec.image
        there = Image(folder=image.folder, reference=image.reference, workdir=BASE)
        limits = Limits(memory_mb=4096, processes=512, disk_mb=1024)
        prepare = replace(spec, trial=f"{spec.trial}-image", image=there, mounts=(), link=None, limits=limits)
        sandbox = await self._start_on(self._host, prepare, DockerImage(raw, raw))
        try:
            moved = await sandbox.exec(
                ["sh", "-c", _MOVE, "move", image.workdir, BASE, str(AGENT_UID), HOME],
                deadline=_PREPARE_SECONDS,
                cwd="/",
            )
            if moved.exit_code == 0 and (image.folder is not None or image.reference is not None):
                try:
                    await harden(sandbox, deadline=_PREPARE_SECONDS)
                except ImageMissing as error:
                    raise ImageMissing(str(error).replace(BASE, image.workdir)) from error
            if moved.exit_code == 0:
                moved = await sandbox.exec(
                    ["chown", "-Rh", f"{AGENT_UID}:{AGENT_UID}", BASE], deadline=_PREPARE_SECONDS, cwd="/"
                )
            if moved.exit_code != 0:
                said = moved.output.decode(errors="replace").strip()[-200:] or "out of time"
                raise ImageMissing(f"the image of {image.reference or image.folder} cannot be prepared: {said}")
            name = getattr(sandbox, "name")  # noqa: B009
            made_of = json.dumps(str(image.reference or image.folder or "nothing")).replace("$", r"\$")
            changes = [*_CHANGES, f"LABEL {MADE}={made_of}"]
            await self._host.call(lambda api: api.commit(name, repository="lego/prepared", tag=tag, changes=changes))
        finally:
            await sandbox.close()

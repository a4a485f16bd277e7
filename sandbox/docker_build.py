"""Getting a task's own image onto a daemon: pulled by its reference, built from its folder, or made of the host.

Where a Dockerfile's base is neither on the daemon nor to be had, and the Dockerfile only copies files, the
host's own packages stand in for it, as they always do in the local sandbox.
"""

from __future__ import annotations

import asyncio
import hashlib
import io
import re
import tarfile
import tempfile
from pathlib import Path
from typing import Any

from sandbox.docker_host import DockerHost, NotThere, Refused
from sandbox.dockerfile import read_dockerfile
from sandbox.host_rootfs import digest, installed, write_rootfs
from sandbox.sandbox import ImageMissing, SandboxError

MADE = "lego.image"
"""The label of every image that is made here, never of one that is pulled, with what it is made of."""
_BUILD_SECONDS = 3600
"""How long a build may say nothing."""
_FULL = "no space left on device"
_FROM = re.compile(r"^\s*FROM\s+(?:--\S+\s+)*(\S+)(?:\s+AS\s+(\S+))?", re.IGNORECASE | re.MULTILINE)


async def resolve(host: DockerHost, reference: str) -> str:
    """The id of an image by its name, pulled if the daemon does not have it.

    Raises:
        ImageMissing: when it can be had from nowhere.
        SandboxError: when the daemon is at fault.
    """
    try:
        return await _id(host, reference)
    except NotThere:
        pass
    try:
        await host.call(lambda api: _follow(api.pull(reference, stream=True, decode=True)))
        return await _id(host, reference)
    except (NotThere, Refused, _Said) as error:
        raise _fault(error, f"the image {reference} is not on {host} and cannot be pulled: {error}") from error


async def build_folder(host: DockerHost, folder: Path) -> str:
    """The id of the image of an environment folder, built if the daemon does not have it.

    Raises:
        ImageMissing: when it has no Dockerfile, its base cannot be had, or the build fails.
        SandboxError: when the daemon is at fault.
    """
    tag = f"lego/task:{(await asyncio.to_thread(_content, folder))[:32]}"
    try:
        return await _id(host, tag)
    except NotThere:
        pass
    path = folder / "Dockerfile"
    try:
        text = path.read_text()
    except FileNotFoundError:
        raise ImageMissing(f"{path} does not exist: an environment folder has a Dockerfile") from None
    if not _FROM.search(text):
        raise ImageMissing(f"{path} has no FROM: it is not a Dockerfile")
    missing = await _missing_base(host, path, text)
    if missing is None:
        await _build(host, folder, tag, path=str(folder))
    else:
        base = await host_image(host)
        rewritten = _FROM.sub(lambda match: match[0].replace(match[1], base, 1), text, count=1)
        with tempfile.TemporaryFile() as context:
            _pack(folder, rewritten, context)
            context.seek(0)
            await _build(host, folder, tag, fileobj=context, custom_context=True)
    return await _id(host, tag)


def _content(folder: Path) -> str:
    """A digest of what is in a folder, whenever it was written: tasks that are made anew find their image."""
    whole = hashlib.sha256()
    for path in sorted(folder.rglob("*")):
        whole.update(f"{path.relative_to(folder)}\0{path.lstat().st_mode}\0".encode())
        if path.is_symlink():
            whole.update(str(path.readlink()).encode())
        elif path.is_file():
            whole.update(hashlib.sha256(path.read_bytes()).digest())
    return whole.hexdigest()


async def host_image(host: DockerHost) -> str:
    """The id of the image made of the host's own packages."""
    packages = await asyncio.to_thread(installed)
    tag = digest(packages)

    def load(api: Any) -> None:
        with tempfile.NamedTemporaryFile(suffix=".tar") as file:
            write_rootfs(file, [*packages])
            file.flush()
            api.import_image_from_file(file.name, repository="lego/host", tag=tag, changes=[f"LABEL {MADE}=packages"])

    async with host.importing:
        try:
            return await _id(host, f"lego/host:{tag}")
        except NotThere:
            await host.call(load)
            return await _id(host, f"lego/host:{tag}")


async def _missing_base(host: DockerHost, path: Path, text: str) -> str | None:
    """The base image that the host has to stand in for; None when the Dockerfile can be built as it is."""
    stages: set[str] = set()
    for base, stage in _FROM.findall(text):
        if base in stages or "$" in base:
            continue
        stages.add(stage)
        if base == "scratch":
            if _needs_tools(path):
                return str(base)
            continue
        try:
            await resolve(host, base)
        except ImageMissing as error:
            try:
                read_dockerfile(path.parent)
            except ImageMissing:
                raise ImageMissing(f"{path} cannot be built: {error}") from error
            return str(base)
    return None


def _needs_tools(path: Path) -> bool:
    """Whether an image from nothing would have nothing to run: it only copies a repository."""
    try:
        recipe = read_dockerfile(path.parent)
    except ImageMissing:
        return False
    return not any(copy.archive or copy.target == "/" for copy in recipe.copies)


class _Said(Exception):
    """What a pull or build printed as its error."""


def _fault(error: Exception, why: str) -> SandboxError:
    """Whose it is: a full disk is not the image's."""
    return SandboxError(why) if _FULL in str(error) else ImageMissing(why)


def _follow(lines: Any) -> None:
    for line in lines:
        if "error" in line:
            raise _Said(" ".join(str(line["error"]).split())[:300])


async def _build(host: DockerHost, folder: Path, tag: str, **context: Any) -> None:
    def build(api: Any) -> None:
        # A daemon without networks of its own has the host's, or what a RUN line installs could not be had.
        network = None if any(each["Name"] == "bridge" for each in api.networks()) else "host"
        settings = {"rm": True, "forcerm": True, "network_mode": network, "timeout": _BUILD_SECONDS}
        _follow(api.build(tag=tag, labels={MADE: str(folder)}, decode=True, **settings, **context))

    try:
        await host.call(build)
    except _Said as error:
        raise _fault(error, f"{folder / 'Dockerfile'} cannot be built on {host}: {error}") from error


async def _id(host: DockerHost, name: str) -> str:
    return str((await host.call(lambda api: api.inspect_image(name)))["Id"])


def _pack(folder: Path, dockerfile: str, out: Any) -> None:
    """The folder as a build context, with another Dockerfile in its place."""
    with tarfile.open(fileobj=out, mode="w") as tar:
        tar.add(folder, arcname=".", filter=lambda member: None if member.name == "./Dockerfile" else member)
        info = tarfile.TarInfo("Dockerfile")
        info.size = len(dockerfile.encode())
        tar.addfile(info, io.BytesIO(dockerfile.encode()))

"""What was made on a daemon to start sandboxes from and is not used there: images, and copies of folders.

Only what is labelled as made here and is named as it is named here; nothing that was pulled, and no image that
somebody has given a name of his own. What a run asks for again is made again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import Any

from sandbox.docker_build import MADE
from sandbox.docker_container import OWNER, RUN
from sandbox.docker_host import DockerHost, NotThere
from sandbox.docker_volumes import COPIED

_OURS = ("lego/prepared:", "lego/task:", "lego/host:")
"""What is made of another comes before it."""


@dataclass(frozen=True)
class Unused:
    """One thing that can be removed."""

    kind: str
    what: str
    made: float
    size: int | None
    """Bytes that it takes beside what it is made of, where that is told."""
    remove: Callable[[], Awaitable[None]]
    """``SandboxError`` or ``OSError`` when it cannot be: it has come to be used, for one."""


async def runs_on(host: DockerHost) -> list[str]:
    """The runs that have a sandbox on a daemon now. ``SandboxError`` when it does not answer."""
    found = await host.call(lambda api: api.containers(filters={"label": OWNER}))
    return sorted({each["Labels"].get(RUN) or "unknown" for each in found if each["Labels"][OWNER]})


async def unused(host: DockerHost, before: float) -> list[Unused]:
    """What was made before a moment and no container uses, in the order in which it can be removed.

    Raises:
        SandboxError: when the daemon does not answer or refuses.
    """
    images = {each["Id"]: each for each in await host.call(lambda api: api.images(all=True))}
    containers = await host.call(lambda api: api.containers(all=True))
    ours = {key: each for key, each in images.items() if _is_ours(each)}
    kept = {each["ImageID"] for each in containers} | {
        key for key, each in images.items() if _tags(each) and (key not in ours or each["Created"] >= before)
    }
    for key in list(kept):  # and all that these were made of
        while (key := images.get(key, {}).get("ParentId")) and key not in kept:
            kept.add(key)
    left = []
    for each in [each for key, each in ours.items() if key not in kept]:
        below = images.get(each.get("ParentId") or "", {}).get("Size", 0)
        what = f"{each['RepoTags'][0]}, of {each['Labels'][MADE]}"
        remove = partial(_remove_image, host, each["RepoTags"])
        left.append(Unused("image", what, each["Created"], each["Size"] - below, remove))
    left.sort(key=lambda each: ([each.what.startswith(name) for name in _OURS].index(True), -each.made))
    return left + await _volumes(host, before)


def _tags(image: Mapping[str, Any]) -> list[str]:
    return [tag for tag in image.get("RepoTags") or () if tag != "<none>:<none>"]


def _is_ours(image: Mapping[str, Any]) -> bool:
    tags = _tags(image)
    return MADE in (image.get("Labels") or ()) and bool(tags) and all(tag.startswith(_OURS) for tag in tags)


async def _volumes(host: DockerHost, before: float) -> list[Unused]:
    filters = {"label": [COPIED], "dangling": ["true"]}
    found = (await host.call(lambda api: api.volumes(filters=filters)))["Volumes"] or ()
    left = []
    for each in found:
        made = datetime.fromisoformat(each["CreatedAt"]).timestamp()
        if made < before:
            what = f"{each['Name']}, a copy of {each['Labels'][COPIED]}"
            left.append(Unused("volume", what, made, None, partial(_remove_volume, host, each["Name"])))
    return left


async def _remove_image(host: DockerHost, tags: Sequence[str]) -> None:
    for tag in tags:  # without force: the daemon refuses what has come to be used
        with contextlib.suppress(NotThere):
            await host.call(partial(_remove_tag, tag=tag))


def _remove_tag(api: Any, tag: str) -> None:
    api.remove_image(tag)


async def _remove_volume(host: DockerHost, name: str) -> None:
    with contextlib.suppress(NotThere):
        await host.call(lambda api: api.remove_volume(name))

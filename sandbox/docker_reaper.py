"""Removing the containers that dead processes left: exactly those that are labelled, and whose owner is gone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from sandbox.docker_container import MACHINE, OWNER, RUN, machine
from sandbox.docker_host import DockerHost, NotThere
from sandbox.leftover import Leftover
from sandbox.orphans import is_alive
from sandbox.sandbox import SandboxError

_ENDED = ("exited", "dead")


async def left_containers(host: DockerHost, run: str | None) -> list[Leftover]:
    """What dead processes left on a daemon, of one run or of any; and what we ourselves could not remove before.

    A container of another machine's process counts only when it runs no more: whether its owner lives cannot
    be seen from here.

    Raises:
        SandboxError: when the daemon does not answer or refuses.
    """
    filters = {"label": [OWNER] if run is None else [OWNER, f"{RUN}={run}"]}
    left = []
    for container in await host.call(lambda api: api.containers(all=True, filters=filters)):
        name, labels = _name(container), container["Labels"]
        given_up = name.startswith(host.prefix) and name not in host.sandboxes
        if labels[OWNER] and (given_up or _is_dead(container)):
            remove = partial(_remove, host, container["Id"])
            left.append(Leftover("container", f"{name} on {host}", labels.get(RUN, ""), remove))
    return left


def _name(container: Mapping[str, Any]) -> str:
    names = container.get("Names") or [container["Id"]]
    return str(names[0]).lstrip("/")


def _is_dead(container: Mapping[str, Any]) -> bool:
    labels = container["Labels"]
    if labels.get(MACHINE) != machine():
        return container.get("State") in _ENDED
    return not is_alive(labels[OWNER])


async def _remove(host: DockerHost, container: str) -> None:
    try:
        await host.call(lambda api: api.remove_container(container, force=True, v=True))
    except NotThere:
        return
    except SandboxError as error:
        raise OSError(str(error)) from error

"""A backend by its name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sandbox.sandbox import Backend, SandboxUnavailable

NAMES = ("auto", "local", "docker")


async def choose_backend(
    name: str = "auto",
    *,
    scratch: Path | None = None,
    hosts: Sequence[str] = (),
    starts: int = 4,
    cpus: float | None = None,
) -> Backend:
    """The named backend, checked: it can start sandboxes here.

    ``auto`` takes docker where a daemon answers, else this machine itself.

    Args:
        scratch: the host folder for the sandboxes' sockets (default: a short path of one's own in /tmp).
        hosts: the docker daemons to use; none: the one that ``DOCKER_HOST`` names, or this machine's.
        starts: sandboxes that may start at once on one docker daemon.
        cpus: processors that one sandbox may use; only docker can limit them.

    Raises:
        SandboxUnavailable: in one line, when it cannot.
        ValueError: for an unknown name.
    """
    if name not in NAMES:
        raise ValueError(f"unknown sandbox {name!r}; there are {', '.join(NAMES)}")
    if name != "local":
        from sandbox.docker import DockerBackend

        docker = DockerBackend(hosts, scratch=scratch, starts=starts, cpus=cpus)
        try:
            await docker.check()
        except SandboxUnavailable:
            if name == "docker" or hosts:
                raise
        else:
            return docker
    from sandbox.local import LocalBackend

    backend = LocalBackend(scratch=scratch)
    await backend.check()
    return backend

"""A backend by its name."""

from __future__ import annotations

from pathlib import Path

from sandbox.sandbox import Backend, SandboxUnavailable

NAMES = ("auto", "local", "docker")


async def choose_backend(name: str = "auto", *, scratch: Path | None = None) -> Backend:
    """The named backend, checked: it can start sandboxes here. ``auto`` takes what this machine has.

    ``scratch``: the host folder for the sandboxes' sockets (default: a short path of one's own in /tmp).
    ``SandboxUnavailable`` in one line when it cannot; ``ValueError`` for an unknown name.
    """
    if name not in NAMES:
        raise ValueError(f"unknown sandbox {name!r}; there are {', '.join(NAMES)}")
    if name == "docker":
        raise SandboxUnavailable("the docker sandbox is not part of this version yet; use sandbox=local")
    from sandbox.local import LocalBackend

    backend = LocalBackend(scratch=scratch)
    await backend.check()
    return backend

"""What a sandbox's container is made of: one request to the engine, from a spec.

What the agent may write is a handful of sized tmpfs; all else is the image, read-only. They share the disk
limit: each may hold all of it, the keeper tells when their sum does, and the container's memory (tmpfs
counts there) bounds the sum in any case.
"""

from __future__ import annotations

import json
import os
import posixpath
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sandbox.kept import LINK_PORT
from sandbox.orphans import identity
from sandbox.sandbox import ImageMissing, Mount, SandboxError, SandboxSpec

AGENT_UID = 10001
"""Who commands are. The keeper is root, with no capability but those of ``_KEEPERS``, which commands lose."""
HOME = "/home/agent"
LINK = "/run/lego/link.sock"
BASE = "/opt/lego/base"
"""Where a prepared image keeps the workdir's tree, which every sandbox copies into its tmpfs."""
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
RUN, TRIAL, OWNER, MACHINE = "lego.run", "lego.trial", "lego.owner", "lego.machine"
_KEEPERS = ("KILL", "SETGID", "SETPCAP", "SETUID")
_PREPARERS = ("CHOWN", "DAC_OVERRIDE", "DAC_READ_SEARCH", "FOWNER")
"""What it takes to make a repository the agent's, where no agent is yet."""
_PLACES = ("/tmp", "/var/tmp", HOME, "/logs", "/solution")
"""The last two are where tasks of the field expect to write: verdicts, and what a reference agent brings along."""
_NEVER = ("/", "/usr", "/etc", "/bin", "/sbin", "/lib", "/lib64", "/proc", "/sys", "/dev", "/run")
_OPEN_FILES = 4096
"""Of one process. A daemon may not set more than it has itself."""
_KEEPER_MB = 64
"""What the keeper and the kernel's own accounts need beside the commands."""
_GUEST = Path(__file__).with_name("guest.py")
_START = """
PATH="$PATH:/usr/local/bin:/usr/bin:/bin:/opt/miniconda3/bin:/opt/conda/bin"
for python in python3 python; do
    if command -v "$python" >/dev/null 2>&1; then exec "$python" -I -S -c "$1" "$2"; fi
done
echo "the image has no python3, which the sandbox's keeper needs" >&2
exit 127
"""


def machine() -> str:
    """This machine, since it was booted: process numbers mean something only here."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()


def labels(run: str, trial: str) -> dict[str, str]:
    """By which a container is known, and by which the dead are told from the living."""
    return {RUN: run, TRIAL: trial, OWNER: identity(os.getpid()), MACHINE: machine()}


def writable(workdir: str) -> list[str]:
    """The places that a sandbox can write to, each a file system of its own, without repetition."""
    return list(dict.fromkeys([*_PLACES, posixpath.normpath(workdir)]))


def creation(
    api: Any,
    spec: SandboxSpec,
    image: str,
    *,
    places: Sequence[str],
    binds: Sequence[Mount],
    link: Path | None,
    volumes: Mapping[str, str],
    cpus: float | None,
    preparing: bool = False,
) -> dict[str, Any]:
    """The arguments of ``api.create_container``.

    Args:
        places: what can be written.
        binds: folders of the daemon's own machine.
        link: the socket to be mounted; None: there is none, or the keeper's channel carries the link.
        volumes: folders that were copied to the daemon, by the path where they are seen.
        preparing: no agent comes here: commands are root's, and what they write is the next image.
    """
    limits = spec.limits
    shared = min(64, max(1, limits.disk_mb // 8))
    memory = (limits.memory_mb + limits.disk_mb + _KEEPER_MB) << 20
    mounts = [_mount(str(mount.source.resolve()), mount.target, "bind") for mount in binds]
    mounts += [_mount(volume, target, "volume") for target, volume in volumes.items()]
    if link is not None:
        mounts.append(_mount(str(link.absolute()), LINK, "bind"))
    options = f"rw,exec,nosuid,nodev,size={limits.disk_mb}m,nr_inodes={max(16384, limits.disk_mb * 256)}"
    owned = f"{options},mode=0755,uid={AGENT_UID},gid={AGENT_UID}"
    host = api.create_host_config(
        auto_remove=True,
        network_mode="none",
        read_only=not preparing,
        cap_drop=["ALL"],
        cap_add=[*_KEEPERS, *(_PREPARERS if preparing else ())],
        security_opt=["no-new-privileges:true"],
        tmpfs={place: f"{options},mode=1777" if place.endswith("/tmp") else owned for place in places},
        shm_size=shared << 20,
        ipc_mode="private",
        mem_limit=memory,
        memswap_limit=memory,
        nano_cpus=None if cpus is None else int(cpus * 1e9),
        pids_limit=limits.processes + 1,
        ulimits=[
            {"Name": "core", "Soft": 0, "Hard": 0},
            {"Name": "nofile", "Soft": _OPEN_FILES, "Hard": _OPEN_FILES},
        ],
        oom_score_adj=500,
        log_config={"Type": "none", "Config": {}},
        mounts=mounts,
        dns=["127.0.0.1"],
    )
    keeper = {
        "limits": {"memory": limits.memory_mb << 20, "processes": limits.processes, "output": limits.output_bytes},
        "link": None if link is None else LINK,
        "port": LINK_PORT if spec.link is not None else None,
        "user": None if preparing else AGENT_UID,
        "places": [*places],
    }
    return {
        "image": image,
        "entrypoint": ["/bin/sh", "-c", _START, "keeper", _GUEST.read_text(), json.dumps(keeper)],
        "command": [],
        "user": "0:0",
        "working_dir": "/",
        "hostname": "sandbox",
        "stop_signal": "SIGKILL",  # the keeper hears no other, and a daemon that stops would wait for it
        "stdin_open": True,
        "tty": False,
        "labels": labels(spec.run, spec.trial),
        "healthcheck": {"Test": ["NONE"]},
        "host_config": host,
    }


def check_spec(spec: SandboxSpec) -> None:
    """``SandboxError`` for what cannot be, before the daemon is asked."""
    workdir, limits = spec.image.workdir, spec.limits
    if min(limits.memory_mb, limits.processes, limits.disk_mb, limits.output_bytes) < 1:
        raise SandboxError(f"sandbox of trial {spec.trial} cannot start: its limits must be above 0, not {limits}")
    if not posixpath.isabs(workdir):
        raise ImageMissing(f"the workdir {workdir!r} is not an absolute path")
    if posixpath.normpath(workdir) in _NEVER:
        raise ImageMissing(
            f"the workdir {workdir} cannot be written in a container; put the repository into a folder of its own"
        )
    for mount in spec.mounts:
        if not mount.target.startswith("/") or posixpath.normpath(mount.target) in _NEVER:
            raise SandboxError(f"a folder cannot be mounted at {mount.target!r}")
        if not mount.source.exists():
            raise SandboxError(f"{mount.source} cannot be mounted at {mount.target}: it does not exist")
    if spec.link is not None:
        if not spec.link.is_socket():
            raise SandboxError(f"the link {spec.link} is not a socket: start the server that listens there first")
        if not spec.link.stat().st_mode & 0o002:
            raise SandboxError(f"the link {spec.link} is closed to the sandbox's user: chmod 666 it")


def _mount(source: str, target: str, kind: str) -> dict[str, Any]:
    return {"Type": kind, "Source": source, "Target": target, "ReadOnly": True}

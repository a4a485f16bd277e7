"""A root file system of the host's own installed packages: a base image where there is no registry.

It stands in for a task's base image as the host's /usr does in the local sandbox: a shell, git, tar and a
python3. Nothing is downloaded; nothing of the host but its packages' files is in it.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import subprocess
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO

from sandbox.sandbox import ImageMissing

PACKAGES = ("bash", "ca-certificates", "findutils", "git", "make", "mawk", "patch", "procps", "python3", "tar")
_STATUS = Path("/var/lib/dpkg/status")
_LEFT_OUT = (
    "/usr/share/doc/",
    "/usr/share/man/",
    "/usr/share/locale/",
    "/usr/share/info/",
    "/usr/share/lintian/",
    "/usr/share/bash-completion/",
    "/var/lib/dpkg/",
    "/var/cache/",
    "/boot/",
)
_BESIDE = (
    "/etc/alternatives",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/nsswitch.conf",
    "/etc/ssl/certs",
    "/bin",
    "/sbin",
    "/lib",
    "/lib64",
    "/usr/bin/awk",
    "/usr/bin/pager",
    "/usr/bin/which",
)
"""What packages' scripts made when they were installed."""
_MADE = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n",
    "etc/group": "root:x:0:\nnogroup:x:65534:\n",
    "etc/shadow": "root:*:19000:0:99999:7:::\n",
}
_FOLDERS = {"tmp": 0o1777, "var/tmp": 0o1777, "root": 0o700, "home": 0o755, "proc": 0o755, "sys": 0o755, "dev": 0o755}
_FOLDERS |= {"run": 0o755, "usr/local/bin": 0o755, "opt": 0o755}


def installed(wanted: Sequence[str] = PACKAGES) -> dict[str, str]:
    """The packages named, those every system has, and all that they depend on, with their versions.

    One that is not installed is left out, but for those that a sandbox cannot do without.

    Raises:
        ImageMissing: where the host has no dpkg, or lacks one of those.
    """
    if not _STATUS.exists():
        raise ImageMissing("the host's files can be made into an image only where it has dpkg (Debian, Ubuntu)")
    known: dict[str, dict[str, str]] = {}
    provided: dict[str, str] = {}
    for stanza in _STATUS.read_text(encoding="utf8").split("\n\n"):
        fields = dict(re.findall(r"^([A-Za-z-]+): (.*)$", stanza, re.MULTILINE))
        if fields.get("Status") != "install ok installed":
            continue
        known[fields["Package"]] = fields
        for name in fields.get("Provides", "").split(","):
            provided.setdefault(name.strip().split(" ")[0], fields["Package"])
    missing = [name for name in ("bash", "git", "python3", "tar") if name not in known]
    if missing:
        raise ImageMissing(f"the host has no {', '.join(missing)} among its packages: apt-get install {missing[0]}")
    todo = [*wanted, *(name for name, fields in known.items() if fields.get("Essential") == "yes")]
    found: dict[str, str] = {}
    while todo:
        name = todo.pop()
        name = name if name in known else provided.get(name, "")
        if name in found or name not in known:
            continue
        fields = known[name]
        found[name] = fields.get("Version", "") + fields.get("Architecture", "")
        for key in ("Depends", "Pre-Depends"):
            for alternatives in fields.get(key, "").split(","):
                names = [re.split(r"[ :(]", each.strip())[0] for each in alternatives.split("|")]
                todo += [each for each in names if each in known or each in provided][:1]
    return dict(sorted(found.items()))


def digest(packages: dict[str, str]) -> str:
    """Of what the image is made of."""
    return hashlib.sha256(repr((3, sorted(packages.items()))).encode()).hexdigest()[:16]


def write_rootfs(out: IO[bytes], packages: Sequence[str]) -> None:
    """A tar of the packages' files. Links are kept; devices, and what is private to root, are not."""
    listed = subprocess.run(["dpkg", "-L", *packages], capture_output=True, text=True, check=False).stdout
    paths = {line for line in listed.splitlines() if line.startswith("/") and not f"{line}/".startswith(_LEFT_OUT)}
    with tarfile.open(fileobj=out, mode="w|", format=tarfile.PAX_FORMAT) as tar:
        seen: set[str] = set()
        for path in [*sorted(paths), *_BESIDE]:
            for each in _below(path) if path in _BESIDE else [path]:
                _add(tar, each, seen)
        for name, mode in _FOLDERS.items():
            if f"/{name}" not in seen:
                seen.add(f"/{name}")
                tar.addfile(_info(name, tarfile.DIRTYPE, mode))
        for name, text in _MADE.items():
            info = _info(name, tarfile.REGTYPE, 0o600 if name == "etc/shadow" else 0o644)
            info.size = len(text)
            tar.addfile(info, io.BytesIO(text.encode()))


def _below(path: str) -> Iterator[str]:
    yield path
    if os.path.isdir(path) and not os.path.islink(path):
        for name in sorted(os.listdir(path)):
            yield from _below(os.path.join(path, name))


def _add(tar: tarfile.TarFile, path: str, seen: set[str]) -> None:
    """The path and the folders above it, once, where it really stands (``/bin`` is a link to ``/usr/bin``)."""
    real = os.path.join(os.path.realpath(os.path.dirname(path)), os.path.basename(path))
    if real in seen or real.lstrip("/") in _MADE or real == "/" or not os.path.lexists(real):
        return
    _add(tar, os.path.dirname(real), seen)
    seen.add(real)
    member = tar.gettarinfo(real, arcname=real.lstrip("/"))
    if member is None or not (member.isreg() or member.islnk() or member.isdir() or member.issym()):
        return
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    if member.isreg():
        with open(real, "rb") as file:
            tar.addfile(member, file)
    else:
        tar.addfile(member)


def _info(name: str, kind: bytes, mode: int) -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.mode = kind, mode
    return info

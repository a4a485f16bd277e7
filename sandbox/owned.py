"""The tests' own files: taken from the base before anything of a patch is there, put in place when it all is.

What they are is known then, in bytes, on the host; whatever the patch did to them, to the folders above them or to
git, and whatever its code did while a repository was brought into shape, is undone.
"""

from __future__ import annotations

import io
import posixpath
import secrets
import tarfile
from collections.abc import Mapping, Sequence

from sandbox.hardening import GIT_ENVIRONMENT
from sandbox.sandbox import ExecResult, Sandbox, SandboxError

_TAKE = r"""
set -eu
work=$1 here=$2; shift 2
mkdir -p "$here/tree"
cat >"$here/patch"
git init -q --bare --template= "$here/git"
mkdir -p "$here/git/info"
# Bytes are bytes: no attribute of the repository's may translate them on the way.
echo '* -text !eol -ident !filter !working-tree-encoding !diff !merge' >"$here/git/info/attributes"
cd "$work"
for path in "$@"; do
    if [ -e "$path" ] || [ -L "$path" ]; then printf '%s\0' "$path"; fi
done >"$here/names"
tar --null -T "$here/names" -cf - | tar -C "$here/tree" -xpf -
cd "$here/tree"
if [ -s "$here/patch" ]; then
    git --git-dir="$here/git" --work-tree=. -c core.hooksPath=/dev/null -c core.autocrlf=false -c core.symlinks=true \
        -c core.protectNTFS=false -c core.protectHFS=false apply --whitespace=nowarn "$here/patch"
fi
find . -mindepth 1 ! -type d -print0 | tar --format=posix --null -T - -cf "$here/tar"
"""
_PUT = r"""
set -eu
cd "$1"; shift
for path in "$@"; do
    above=$path
    while [ "$above" != "${above%/*}" ]; do
        above=${above%/*}
        if [ -L "$above" ] || { [ -e "$above" ] && [ ! -d "$above" ]; }; then rm -f -- "$above"; fi
    done
    rm -rf -- "$path"
done
tar -xpf -
"""
_LIMIT = 256 << 20


async def take_owned(sandbox: Sandbox, paths: Sequence[str], patch: bytes) -> bytes:
    """A tar of the files at ``paths`` as they are with ``patch`` applied; the workdir stays as it is.

    Raises:
        SandboxError: with git's words when the patch does not apply: the task is broken.
    """
    here = f"/tmp/.owned-{secrets.token_hex(8)}"
    command = ["bash", "-c", _TAKE, "take", sandbox.spec.image.workdir, here, *paths]
    done = await sandbox.exec(command, deadline=120, cwd="/", env=GIT_ENVIRONMENT, stdin=patch)
    if done.exit_code != 0:
        raise SandboxError(
            f"trial {sandbox.spec.trial}: the tests' own patch does not apply to the base: {_said(done)}"
        )
    taken = await sandbox.get(f"{here}/tar", limit=_LIMIT)
    await sandbox.exec(["rm", "-rf", here], deadline=60, cwd="/")
    return taken


async def put_owned(sandbox: Sandbox, paths: Sequence[str], taken: bytes) -> str | None:
    """Make the files at ``paths`` what was taken, and remove those that were not there.

    Returns:
        None; or why it cannot be done: the doing of what has run there.

    Raises:
        SandboxError: when the disk is full.
    """
    done = await sandbox.exec(
        ["bash", "-c", _PUT, "put", sandbox.spec.image.workdir, *paths], deadline=120, cwd="/", stdin=taken
    )
    if done.exit_code == 0:
        return None
    if await sandbox.disk_full():
        raise SandboxError(f"trial {sandbox.spec.trial}: no room left on the sandbox's disk for the tests")
    return f"the tests could not be put in their place: {_said(done)}"


def with_files(taken: bytes, files: Mapping[str, bytes]) -> bytes:
    """The same files, and these in the place of those that have their names."""
    if not files:
        return taken
    out = io.BytesIO()
    with (
        tarfile.open(fileobj=io.BytesIO(taken)) as before,
        tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as after,
    ):
        modes = {}
        for member in before.getmembers():
            name = posixpath.normpath(member.name)
            if name in files:
                modes[name] = member.mode
            else:
                after.addfile(member, before.extractfile(member) if member.isreg() else None)
        for name, content in files.items():
            info = tarfile.TarInfo(name)
            info.size, info.mode = len(content), modes.get(name, 0o644)
            after.addfile(info, io.BytesIO(content))
    return out.getvalue()


def files_in(taken: bytes) -> dict[str, bytes]:
    """The contents of the ordinary files."""
    with tarfile.open(fileobj=io.BytesIO(taken)) as tar:
        found = {posixpath.normpath(member.name): tar.extractfile(member) for member in tar if member.isreg()}
        return {name: file.read() for name, file in found.items() if file is not None}


def _said(done: ExecResult) -> str:
    lines = done.output.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "out of time"

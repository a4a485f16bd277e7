"""File trees as tars in memory: how an image gets into a sandbox without touching the host's disk."""

from __future__ import annotations

import hashlib
import io
import os
import posixpath
import tarfile
import weakref
from collections.abc import Iterable, Iterator
from pathlib import Path

from sandbox.dockerfile import Copy, Recipe
from sandbox.sandbox import ImageMissing


class InMemory:
    """Bytes that a process which is started here can read without anybody sending them."""

    def __init__(self, content: bytes) -> None:
        self.size = len(content)
        self._fd = os.memfd_create("lego")
        weakref.finalize(self, os.close, self._fd)
        with open(self._fd, "wb", closefd=False) as file:
            file.write(content)

    def open(self) -> int:
        """A descriptor of one's own that reads them from the beginning."""
        return os.open(f"/proc/self/fd/{self._fd}", os.O_RDONLY | os.O_CLOEXEC)


def signature(folder: Path) -> str:
    """A digest that changes when anything in the folder does: names, modes, sizes and times of change."""
    digest = hashlib.sha256()
    for path, status in _walk(folder):
        digest.update(f"{path}\0{status.st_mode}\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
    return digest.hexdigest()


def pack_recipe(recipe: Recipe, folders: Iterable[str] = ()) -> bytes:
    """The tree that a recipe makes, as a tar whose names are relative to the root."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        for folder in [*recipe.folders, *folders]:
            _add_folder(tar, folder)
        for copy in recipe.copies:
            try:
                _add_copy(tar, copy)
            except (OSError, tarfile.TarError) as error:
                raise ImageMissing(f"{copy.source} cannot be read: {error}") from error
    return out.getvalue()


def pack_folder(folder: Path, target: str) -> bytes:
    """A folder of the host as a tar that puts its contents at ``target``."""
    return pack_recipe(Recipe(copies=[Copy(folder, target)]))


def _add_copy(tar: tarfile.TarFile, copy: Copy) -> None:
    if copy.archive:
        with tarfile.open(copy.source) as source:
            for member in source:
                name = posixpath.normpath(member.name)
                if name.startswith(("/", "..")) or not (member.isreg() or member.isdir() or member.issym()):
                    raise ImageMissing(f"{copy.source}: {member.name} cannot be unpacked here")
                member.name = _inside(posixpath.join(copy.target, name))
                tar.addfile(member, source.extractfile(member) if member.isreg() else None)
    elif copy.source.is_dir():
        _add_folder(tar, copy.target)
        for path, _ in _walk(copy.source):
            _add_path(tar, copy.source / path, posixpath.join(copy.target, path), copy.mode)
    else:
        _add_path(tar, copy.source.resolve(), copy.target, copy.mode)


def _walk(folder: Path) -> Iterator[tuple[str, os.stat_result]]:
    """Every path below, relative, folders before their contents, in a fixed order."""
    stack = [""]
    while stack:
        here = stack.pop()
        with os.scandir(folder / here) as entries:
            for entry in sorted(entries, key=lambda entry: entry.name):
                path = posixpath.join(here, entry.name)
                yield path, entry.stat(follow_symlinks=False)
                if entry.is_dir(follow_symlinks=False):
                    stack.append(path)


def _add_path(tar: tarfile.TarFile, path: Path, target: str, mode: int | None) -> None:
    member = tar.gettarinfo(str(path), arcname=_inside(target))
    if member is None or not (member.isreg() or member.islnk() or member.isdir() or member.issym()):
        raise ImageMissing(f"{path} is neither a file, a folder nor a symbolic link")
    member.uid = member.gid = 0
    member.uname = member.gname = ""
    if member.islnk():  # a hard link within the source: as a file of its own
        member.type, member.linkname, member.size = tarfile.REGTYPE, "", path.stat().st_size
    if mode is not None and not member.issym():
        member.mode = mode
    elif member.isdir():
        member.mode |= 0o700
    elif member.isreg():
        member.mode |= 0o400
    if member.isreg():
        with open(path, "rb") as file:
            tar.addfile(member, file)
    else:
        tar.addfile(member)


def _add_folder(tar: tarfile.TarFile, target: str) -> None:
    """A folder and those above it. One mode for all: the base image that would say otherwise is not here."""
    parts = _inside(target).split("/")
    for depth in range(1, len(parts) + 1):
        name = "/".join(parts[:depth])
        if name in ("", "."):
            continue
        member = tarfile.TarInfo(name)
        member.type, member.mode = tarfile.DIRTYPE, 0o755
        tar.addfile(member)


def _inside(target: str) -> str:
    return posixpath.normpath(target).lstrip("/") or "."

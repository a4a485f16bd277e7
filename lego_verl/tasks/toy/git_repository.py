"""A git repository of one commit, as bytes: no git process, and the same bytes on every machine.

Objects are stored uncompressed inside their zlib frame, so that they do not depend on the version of zlib. The
index has no file times, as after ``git read-tree``: git looks at the contents the first time it compares.
"""

from __future__ import annotations

import hashlib
import zlib
from collections.abc import Mapping

_AUTHOR = b"Toy Maker <toy@lego-verl.invalid> 1700000000 +0000"
_CONFIG = b"[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = false\n"
_FILE_MODE, _FOLDER_MODE = 0o100644, 0o040000


def git_folder(files: Mapping[str, bytes], message: str) -> dict[str, bytes]:
    """The contents of ``.git`` for a repository whose only commit, on ``main``, holds ``files``.

    Args:
        files: contents by path relative to the repository, with ``/``; all of mode 644.

    Returns:
        Contents by path relative to the repository (``.git/HEAD``, …).
    """
    objects: dict[str, bytes] = {}
    blobs = {path: _store(objects, b"blob", content) for path, content in files.items()}
    tree = _tree(objects, {path: bytes.fromhex(name) for path, name in blobs.items()})
    commit = _store(
        objects,
        b"commit",
        b"tree %s\nauthor %s\ncommitter %s\n\n%s\n" % (tree.hex().encode(), _AUTHOR, _AUTHOR, message.encode()),
    )
    found = {f".git/objects/{name[:2]}/{name[2:]}": content for name, content in objects.items()}
    found[".git/HEAD"] = b"ref: refs/heads/main\n"
    found[".git/refs/heads/main"] = commit.encode() + b"\n"
    found[".git/config"] = _CONFIG
    found[".git/index"] = _index({path: bytes.fromhex(name) for path, name in blobs.items()})
    return found


def _store(objects: dict[str, bytes], kind: bytes, content: bytes) -> str:
    whole = b"%s %d\0%s" % (kind, len(content), content)
    name = hashlib.sha1(whole, usedforsecurity=False).hexdigest()
    objects[name] = zlib.compress(whole, 0)
    return name


def _tree(objects: dict[str, bytes], blobs: Mapping[str, bytes]) -> bytes:
    """Store the tree of a folder; returns its name, 20 bytes."""
    folders: dict[str, dict[str, bytes]] = {}
    entries: list[tuple[bytes, int, bytes]] = []
    for path, name in blobs.items():
        head, slash, rest = path.partition("/")
        if slash:
            folders.setdefault(head, {})[rest] = name
        else:
            entries.append((head.encode(), _FILE_MODE, name))
    entries += [(head.encode(), _FOLDER_MODE, _tree(objects, inner)) for head, inner in folders.items()]
    # git orders folders as if their names ended in a slash
    entries.sort(key=lambda entry: entry[0] + (b"/" if entry[1] == _FOLDER_MODE else b""))
    content = b"".join(b"%o %s\0%s" % (mode, head, name) for head, mode, name in entries)
    return bytes.fromhex(_store(objects, b"tree", content))


def _index(entries: Mapping[str, bytes]) -> bytes:
    """An index of version 2 (gitformat-index(5)). Sizes are 0 as the times are: nothing is known of the files yet."""
    body = b"DIRC" + (2).to_bytes(4, "big") + len(entries).to_bytes(4, "big")
    for path in sorted(entries, key=str.encode):
        name, encoded = entries[path], path.encode()
        entry = bytes(24) + _FILE_MODE.to_bytes(4, "big") + bytes(12) + name + len(encoded).to_bytes(2, "big") + encoded
        body += entry + bytes(8 - len(entry) % 8)
    return body + hashlib.sha1(body, usedforsecurity=False).digest()

"""Reasoning as ``encrypted_content`` of our own: what a client sends back as it was, and need not be able to read.

It is not secret: the same text stands in the summary beside it. It is there because some clients drop the summary.
"""

from __future__ import annotations

import binascii
import zlib
from base64 import b64decode, b64encode

_MARK = "lego1."
"""What ours begins with; the number is the version of what follows."""
_MAX_RATIO = 8
"""By how much a content may grow when it is read, so that no small request becomes gigabytes."""


def seal(reasoning: str) -> str:
    """Text to content."""
    plain = reasoning.encode()
    packed = zlib.compress(plain)
    if len(plain) > _MAX_RATIO * len(packed):
        packed = zlib.compress(plain, 0)
    return _MARK + b64encode(packed).decode()


def unseal(content: object) -> str | None:
    """Content to text; None when it is none of ours, or was changed."""
    if not isinstance(content, str) or not content.startswith(_MARK):
        return None
    try:
        packed = b64decode(content.removeprefix(_MARK), validate=True)
        reader = zlib.decompressobj()
        plain = reader.decompress(packed, max(_MAX_RATIO * len(packed), 1))
        return plain.decode() if reader.eof else None
    except (ValueError, zlib.error, binascii.Error):
        return None

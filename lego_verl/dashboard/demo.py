"""The demonstration run: a real small training run that is shipped, packed, and unpacked for as long as it is shown."""

from __future__ import annotations

import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PACKED = Path(__file__).with_name("demo.tar.xz")


class NoDemo(FileNotFoundError):
    """There is no demonstration run in this installation; one line."""


@contextmanager
def demo_run(packed: Path = PACKED) -> Iterator[Path]:
    """The folder of the demonstration run, gone afterwards.

    Raises:
        NoDemo: when the file is missing, or holds no run.
    """
    if not packed.exists():
        raise NoDemo(f"the demonstration run is not in this installation ({packed} is missing): give a run of your own")
    with tempfile.TemporaryDirectory(prefix="lego-demo-") as folder:
        with tarfile.open(packed) as archive:
            archive.extractall(folder, filter="data")
        found = sorted(path.parent for path in Path(folder).glob("*/trials"))
        if not found:
            raise NoDemo(f"{packed} holds no run (a folder with trials/ in it)")
        yield found[0]

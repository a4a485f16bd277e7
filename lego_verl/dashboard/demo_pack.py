"""Packs a run as the demonstration that is shipped: ``python -m lego_verl.dashboard.demo_pack RUN``.

What the dashboard, status and report read goes in: store, recipe, versions, metrics, trials, trained tokens. Weights,
checkpoints, tasks' repositories and the processes' logs stay behind.
"""

from __future__ import annotations

import argparse
import shutil
import sqlite3
import sys
import tarfile
import tempfile
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path

from lego_verl.dashboard.demo import PACKED
from lego_verl.monitor.run_folder import RunFolder
from lego_verl.proof.read import NoRun, find_run


def pack_demo(run: RunFolder, packed: Path) -> int:
    """Write ``packed`` from a finished run; its size in bytes.

    Raises:
        NoRun: when the run has no store.
    """
    if not run.store.exists():
        raise NoRun(f"{run.path} has no store: python -m lego_verl.status {run.path} makes one")
    with tempfile.TemporaryDirectory() as folder:
        copy = RunFolder(Path(folder) / "demo")
        copy.path.mkdir()
        with closing(sqlite3.connect(run.store)) as store:  # with what still stands in its write-ahead log
            store.execute("VACUUM INTO ?", (str(copy.store),))
        for path in (run.recipe, run.versions, run.metrics, run.heldout, run.events):
            if path.exists():
                shutil.copy2(path, copy.path / path.name)
        for path in (run.trials, run.trained, run.tokens):
            if path.exists():
                shutil.copytree(path, copy.path / path.name)
        part = packed.with_suffix(".part")
        with tarfile.open(part, "w:xz", preset=9) as archive:
            archive.add(copy.path, "demo", filter=_nobody)
        part.replace(packed)
    return packed.stat().st_size


def _nobody(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    """Without the name of who made it."""
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = ""
    return entry


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code (2: no such run)."""
    parser = argparse.ArgumentParser("lego_verl.dashboard.demo_pack", description=__doc__)
    parser.add_argument("run", help="a finished run's folder, or its name under runs/")
    parser.add_argument("--out", type=Path, default=PACKED, help="the file to write (default: the one that is shipped)")
    given = parser.parse_args(arguments)
    try:
        size = pack_demo(RunFolder(find_run(given.run)), given.out)
    except NoRun as error:
        print(f"lego_verl: {error}", file=sys.stderr)
        return 2
    print(f"{given.out}: {size / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())

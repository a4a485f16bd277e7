"""Whether the disk that holds a run is filling, said before it is full."""

from __future__ import annotations

import shutil

from lego_verl.monitor.run_folder import RunFolder

LOW_BYTES = 500 << 20
"""Free space under which a run is warned: a checkpoint, or the store's own log, may not fit."""


def disk_trouble(run: RunFolder) -> str:
    """One line where the disk is filling; empty where there is room."""
    try:
        usage = shutil.disk_usage(run.path)
    except OSError:
        return ""
    if usage.free >= min(LOW_BYTES, usage.total // 5):
        return ""
    return (
        f"the disk that holds {run.path} has {usage.free / 2**20:.0f} MiB left: what cannot be written is lost to the "
        f"store, and checkpoints fail. See lego.monitor.keep for what of old steps may go"
    )


def free_bytes(run: RunFolder) -> int | None:
    """Room on the disk that holds a run; None where it cannot be had."""
    try:
        return shutil.disk_usage(run.path).free
    except OSError:
        return None

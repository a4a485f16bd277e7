"""Checks of a made-up harness, in the real local sandbox."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from made_up_harness import Check, MadeUp

from harness_adapters.runtime import build_runtime
from lego_verl.harness_check.check import chosen, examine, make_task, report_of
from sandbox.local import LocalBackend
from sandbox.sandbox import Limits

LIMITS = Limits(memory_mb=256, processes=64, disk_mb=32, output_bytes=1 << 16)


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A temporary folder that other users may enter: runtimes and tests are mounted from it."""
    folder = Path(tempfile.mkdtemp(prefix="lego-test-"))
    folder.chmod(0o755)
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def check(open_folder: Path) -> Check:
    """Check the made-up harness with some quirks, in some scenarios; the report."""

    async def run(quirks: str = "", *only: str) -> dict[str, Any]:
        adapter, backend = MadeUp(quirks=quirks), LocalBackend()
        built = await build_runtime(adapter.runtime, open_folder / "cache")
        task = make_task(open_folder / "task")
        scenarios = chosen(only or None)
        examiner, found = await examine(
            scenarios, adapter, built, backend, task, slow=0.5, slots=4, limits=LIMITS, keep=open_folder / "kept"
        )
        return report_of("made_up", adapter, {}, backend.name, 0.5, examiner, found)

    return run

"""Building a runtime with something to look at."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from harness_adapters.adapter import Runtime
from harness_adapters.runtime import BuiltRuntime, build_runtime


async def build_with_progress(
    runtime: Runtime, cache: Path, console: Console, *, share_usr: bool = True
) -> BuiltRuntime:
    """``build_runtime`` with a status line while it takes time, and one line that stays when it was built."""
    told = False
    with console.status(f"harness {runtime.name}") as status:

        def report(doing: str) -> None:
            nonlocal told
            if not told and not console.is_terminal:
                console.print(f"installing harness {runtime.name} (once)")
            told = True
            status.update(f"harness {runtime.name}: {doing}")

        built = await build_runtime(runtime, cache, share_usr=share_usr, report=report)
    if told:
        console.print(f"harness {runtime.name} is installed: {built.folder}")
    return built

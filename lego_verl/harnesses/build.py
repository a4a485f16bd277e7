"""``harnesses build``: install runtimes before a run needs them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from harness_adapters.adapter import HarnessError
from harness_adapters.install import Report, RuntimeBuildError
from harness_adapters.registry import adapter_names, load_adapter
from harness_adapters.runtime import build_runtime, cache_folder, runtime_folder
from lego_verl.config import ConfigError
from lego_verl.harnesses.wanted import SHARES_USR, harness_recipe
from lego_verl.trial.from_recipe import sandbox_backend


async def build(names: Sequence[str], overrides: Sequence[str], console: Console) -> int:
    """Build the runtimes of these harnesses (``all``: of every one); return the exit code.

    One that cannot be built does not keep the others from it.

    Raises:
        ConfigError: for an override that there is not.
        SandboxError: when ``sandbox=auto`` finds none.
    """
    known = adapter_names()
    chosen = known if "all" in names else list(dict.fromkeys(names))
    if not chosen:
        raise ConfigError(f"build: name a harness, or all; there are {', '.join(known)}")
    failed = 0
    with Progress(
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
        transient=True,
    ) as progress:
        bar = progress.add_task("harnesses", total=len(chosen))
        for name in chosen:

            def doing(what: str, name: str = name) -> None:
                progress.update(bar, description=f"{name}: {escape(what)}")

            doing("looking")
            try:
                folder, built = await _build_one(name, overrides, doing)
            except (HarnessError, RuntimeBuildError) as error:
                failed += 1
                console.print(f"[red]{name}[/]: {escape(str(error))}", soft_wrap=True)
            else:
                console.print(f"{name}: {'built' if built else 'was there'}: {folder}", soft_wrap=True)
            progress.advance(bar)
    return 1 if failed else 0


async def _build_one(name: str, overrides: Sequence[str], doing: Report) -> tuple[Path, bool]:
    lego = harness_recipe(name, overrides)
    adapter = load_adapter(name, lego.harness.options)
    backend = lego.sandbox.backend
    # Ahead of a run, no daemon need answer yet.
    share_usr = SHARES_USR[backend] if backend in SHARES_USR else (await sandbox_backend(lego)).shares_usr
    cache = cache_folder(lego.run.cache)
    known = runtime_folder(adapter.runtime, cache, share_usr=share_usr).exists()
    built = await build_runtime(adapter.runtime, cache, share_usr=share_usr, report=doing)
    return built.folder, not known

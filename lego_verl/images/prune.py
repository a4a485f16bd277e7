"""``python -m lego_verl.images prune``: what was made for sandboxes to start from, and is not used any more."""

from __future__ import annotations

import time
from datetime import datetime

from rich.console import Console
from rich.filesize import decimal
from rich.markup import escape
from rich.table import Table

from lego_verl.config import LegoConfig
from lego_verl.training_process import run_scratches
from sandbox.docker import DockerBackend
from sandbox.docker_prune import Unused, runs_on, unused
from sandbox.orphans import is_alive, sandbox_processes
from sandbox.sandbox import SandboxError

DAYS = 7.0


async def prune(lego: LegoConfig, console: Console, *, days: float, dry: bool) -> int:
    """Remove it, or only say what it is; return the exit code. A run that lives keeps everything where it is."""
    living = {f"{each.run or each.folder}, which process {each.pid} runs" for each in run_scratches() if each.alive}
    living |= {f"{run}, which has sandboxes here" for _, starter, run in sandbox_processes() if is_alive(starter)}
    for each in sorted(living):
        console.print(f"nothing is removed while it lives: {each}", markup=False, soft_wrap=True)
    if living:
        return 1
    before, found, unseen = time.time() - days * 86_400, list[Unused](), False
    for host in DockerBackend(lego.sandbox.hosts).hosts:
        try:
            busy = await runs_on(host)
            if busy:
                console.print(f"left alone: {host}, where {', '.join(busy)} has sandboxes", soft_wrap=True)
            else:
                found += await unused(host, before)
        except SandboxError as error:
            console.print(f"not looked at: {error}", markup=False, soft_wrap=True)
            unseen = True
    refused = {} if dry else await _remove(found)
    _show(found, refused, console, dry=dry)
    return 1 if unseen or refused or (dry and found) else 0


async def _remove(found: list[Unused]) -> dict[str, str]:
    """What could not be removed, and why."""
    refused = {}
    for each in found:
        try:
            await each.remove()
        except (SandboxError, OSError) as error:
            refused[each.what] = str(error)
    return refused


def _show(found: list[Unused], refused: dict[str, str], console: Console, *, dry: bool) -> None:
    if not found:
        console.print("nothing that was made is unused")
        return
    table = Table("kind", "made", "size", "what", "now", box=None, pad_edge=False, padding=(0, 1))
    for each in found:
        now = "[yellow]would be removed[/]" if dry else "removed"
        if each.what in refused:
            now = f"[red]stays: {escape(refused[each.what])}[/]"
        made = datetime.fromtimestamp(each.made).strftime("%Y-%m-%d %H:%M")
        table.add_row(each.kind, made, "" if each.size is None else decimal(each.size), escape(each.what), now)
    console.print(table)
    gone = [each for each in found if each.what not in refused]
    size = decimal(sum(each.size or 0 for each in gone))
    console.print(f"{len(gone)} things, {size}, {'would be ' if dry else ''}removed")

"""``python -m lego_verl.reap [RUN]``: the command line."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from lego_verl.proof.read import NoRun
from lego_verl.reap.find import Found, WantedRun, find_left, open_backends, remove_left, wanted_run
from lego_verl.verb import ended, wide_console
from sandbox.leftover import Leftover
from sandbox.sandbox import SandboxError

_DESCRIPTION = """\
Removes what dead runs left: their sandboxes, whatever the backend, their processes, and their scratch folders. A run is
dead when the process that started it is gone; what a living one uses is never touched. The run's own folder, with its
trials and checkpoints, is nobody's leftover and stays."""
_EXIT_CODES = """\
exit codes:
  0    nothing of dead runs is left (any more)
  1    something is: it could not be removed or looked at, or --dry-run was given
  2    an argument cannot be used, or nothing is known of such a run
  130  interrupted

examples:
  python -m lego_verl.reap --dry-run
  python -m lego_verl.reap
  python -m lego_verl.reap my-run"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code."""
    given = _parser().parse_args(arguments)
    console = wide_console()

    def reap() -> int:
        if given.run is not None and given.all_dead:
            raise NoRun("RUN is one run and --all-dead is every one: give one of them")
        wanted = None if given.run is None else wanted_run(given.run)
        return asyncio.run(_reap(wanted, console, dry=given.dry_run))

    return ended(reap, {NoRun: 2}, interrupted="interrupted; run it again for what is left")


async def _reap(wanted: WantedRun | None, console: Console, *, dry: bool) -> int:
    backends, unseen = await open_backends()
    found = await find_left(backends, wanted)
    if wanted is not None and wanted.folder is None and not found.left and not found.living:
        raise NoRun(f"{wanted.name}: there is no such run, and nothing that is left carries this name")
    still = {each: "" for each in found.left} if dry else await remove_left(backends, wanted, found)
    _show(found, still, console, dry=dry)
    for scratch in found.living:
        console.print(f"left alone: {scratch.run or scratch.folder}, which process {scratch.pid} runs", soft_wrap=True)
    for backend in found.unlisted:
        if dry or wanted is not None:
            unseen.append(
                f"{backend.name}: it can only remove what all dead runs left: run this without RUN or --dry-run"
            )
            continue
        try:
            console.print(f"{backend.name}: {await backend.reap()} more removed")
        except SandboxError as error:
            found.unseen.append(f"{backend.name}: {error}")
    for line in [*unseen, *found.unseen]:
        console.print(f"[dim]not looked at: {escape(line)}[/]", soft_wrap=True)
    return 1 if still or found.unseen else 0


def _show(found: Found, still: Mapping[Leftover, str], console: Console, *, dry: bool) -> None:
    if not found.left:
        console.print("nothing of dead runs is left")
        return
    table = Table("run", "kind", "what", "now", box=None, pad_edge=False, header_style="bold", padding=(0, 1))
    for each in found.left:
        now = "[yellow]would be removed[/]" if dry else "removed"
        if not dry and each in still:
            now = f"[red]stays: {escape(still[each])}[/]"
        table.add_row(escape(each.run or "unknown"), each.kind, escape(each.what), now)
    console.print(table)
    runs = len({each.run for each in found.left})
    count = len(found.left) if dry else len(found.left) - len(still)
    words = "would be removed" if dry else "removed"
    stay = f"; [red]{len(still)} could not be[/]" if still and not dry else ""
    things = f"{count} thing{'s' if count != 1 else ''} of {runs} dead run{'s' if runs != 1 else ''}"
    console.print(f"{things} {words}{stay}")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "lego_verl.reap",
        description=_DESCRIPTION,
        epilog=_EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("run", nargs="?", help="only of this run: its folder, or its name (default: of every dead run)")
    parser.add_argument("--all-dead", action="store_true", help="of every dead run: the default, said aloud")
    parser.add_argument("--dry-run", action="store_true", help="only list what would be removed")
    return parser


if __name__ == "__main__":
    sys.exit(main())

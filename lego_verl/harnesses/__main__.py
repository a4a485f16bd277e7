"""``python -m lego_verl.harnesses build|list|clean``: the command line."""

from __future__ import annotations

import argparse
import asyncio
import sys
from collections.abc import Sequence
from pathlib import Path

from harness_adapters.runtime import cache_folder
from lego_verl.config import ConfigError
from lego_verl.harnesses.build import build
from lego_verl.harnesses.clean import clean, show_runtimes
from lego_verl.verb import ended, wide_console
from sandbox.sandbox import SandboxError

_DESCRIPTION = "Runtimes of harnesses: installed once, kept in a cache, mounted read-only into every trial's sandbox."
_CLEAN = """\
Removes runtimes that no harness asks for by its recipe and nobody used for a day, and what killed builders left. With
--days N, any that was not used for N days (0: all). A runtime that a process of this machine uses stays. What is asked
for again is built again."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code (0: done, 1: something could not be, 2: a bad argument)."""
    given = _parser().parse_args(arguments)
    console = wide_console()

    def act() -> int:
        if given.verb == "build":
            names = [each for each in given.what if "=" not in each]
            return asyncio.run(build(names, [each for each in given.what if "=" in each], console))
        cache = cache_folder(given.cache)
        if given.verb == "list":
            return show_runtimes(cache, console)
        return clean(cache, console, days=given.days, dry=given.dry_run)

    interrupted = "interrupted; what is built stays, and nothing half-built does"
    return ended(act, {ConfigError: 2, SandboxError: 1, OSError: 1}, interrupted=interrupted)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("lego_verl.harnesses", description=_DESCRIPTION)
    verbs = parser.add_subparsers(dest="verb", required=True)
    building = verbs.add_parser("build", help="install them ahead of a run")
    building.add_argument("what", nargs="+", metavar="NAME|all|KEY=VALUE", help="harnesses; sandbox=local|docker, …")
    listing = verbs.add_parser("list", help="harnesses, their runtimes, size and last use")
    cleaning = verbs.add_parser("clean", help="remove what nobody asks for", description=_CLEAN)
    cleaning.add_argument("--days", type=float, help="remove what was not used for so many days")
    cleaning.add_argument("--dry-run", action="store_true", help="only say what would be removed")
    for each in (listing, cleaning):
        each.add_argument("--cache", type=Path, help="where runtimes are kept (default: where runs keep them)")
    return parser


if __name__ == "__main__":
    sys.exit(main())

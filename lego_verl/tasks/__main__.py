"""``python -m lego_verl.tasks VERB …``: ``check`` tasks, list the ``cheaters`` they are checked with, or ``convert``
a dataset to tasks."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from lego_verl.taskcheck import command
from lego_verl.taskcheck.convert import convert

_VERBS = {"check": command.check, "cheaters": command.cheaters, "convert": convert}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return the exit code (0: all tasks are usable, 1: some are not, 2: a bad recipe)."""
    verb, *rest = list(sys.argv[1:] if arguments is None else arguments) or [""]
    if verb not in _VERBS:
        print(f"lego_verl: python -m lego_verl.tasks {'|'.join(_VERBS)} [KEY=VALUE ...]", file=sys.stderr)
        return 2
    return _VERBS[verb](rest)


if __name__ == "__main__":
    sys.exit(main())

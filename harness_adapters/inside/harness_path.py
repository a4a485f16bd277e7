"""What every Python harness of a runtime does first. It stands beside its launcher, and is imported from there.

The interpreter runs with ``-S -E``, so that neither the machine's packages nor the repository's environment reach the
harness, and the harness's packages never reach the commands of the agent.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager


def prepare() -> None:
    """Make the runtime importable, and give the agent's commands the environment that they would have had."""
    runtime = os.path.dirname(os.path.abspath(__file__))
    sys.path[:0] = [os.path.join(runtime, "site"), runtime]
    outer = os.environ.pop("LEGO_OUTER_LD_LIBRARY_PATH", None)  # of a runtime that brings its interpreter
    if outer:
        os.environ["LD_LIBRARY_PATH"] = outer
    elif outer is not None:
        os.environ.pop("LD_LIBRARY_PATH", None)


@contextmanager
def importing(**environment: str) -> Iterator[None]:
    """For the time of imports: with variables that the agent's commands are not to see, and without the garbage
    collector, which finds nothing in thousands of new modules and takes a tenth of their time."""
    before = {name: os.environ[name] for name in environment if name in os.environ}
    os.environ.update(environment)
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
        for name in environment:
            del os.environ[name]
        os.environ.update(before)

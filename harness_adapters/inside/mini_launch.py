"""Starts mini-swe-agent's own command line from the runtime, and says by its exit code how the agent ended.

(mini's own code is 0 however the agent ended, and of a long output the end may be cut.)

The interpreter runs with ``-S -E``, so that neither the machine's packages nor the repository's
environment reach the harness, and the harness's packages never reach the commands of the agent.
"""

from __future__ import annotations

import os
import sys
import traceback

EXIT_CODES = {
    "Submitted": 0,
    "RepeatedFormatError": 43,
    "LimitsExceeded": 44,
    "ContextWindowExceededError": 45,
}
"""By mini's exit status, or the name of what it raised; anything else is 1. ``MiniSweAgent.ending`` knows them."""


def prepare() -> None:
    """Make the runtime importable, and give the agent's commands the environment that they would have had."""
    runtime = os.path.dirname(os.path.abspath(__file__))
    sys.path[:0] = [os.path.join(runtime, "site"), runtime]
    outer = os.environ.pop("LEGO_OUTER_LD_LIBRARY_PATH", None)  # of a runtime that brings its interpreter
    if outer:
        os.environ["LD_LIBRARY_PATH"] = outer
    elif outer is not None:
        os.environ.pop("LD_LIBRARY_PATH", None)


def main() -> int:
    prepare()
    from minisweagent.run.mini import app

    try:
        agent = app(sys.argv[1:], standalone_mode=False)
    except Exception as error:  # noqa: BLE001  whatever ends the harness is named, and its exit code says so
        traceback.print_exc()
        return report(type(error).__name__)
    return report(agent.messages[-1].get("extra", {}).get("exit_status", ""))


def report(exit_status: str) -> int:
    sys.stderr.flush()
    print(f"\nmini-swe-agent ended: {exit_status}", flush=True)
    return EXIT_CODES.get(exit_status, 1)


if __name__ == "__main__":
    sys.exit(main())

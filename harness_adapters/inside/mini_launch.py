"""Starts mini-swe-agent's own command line from the runtime, and says by its exit code how the agent ended.

(mini's own code is 0 however the agent ended, and of a long output the end may be cut.)
"""

from __future__ import annotations

import sys
import traceback

EXIT_CODES = {
    "Submitted": 0,
    "RepeatedFormatError": 43,
    "LimitsExceeded": 44,
    "ContextWindowExceededError": 45,
}
"""By mini's exit status, or the name of what it raised; anything else is 1. ``MiniSweAgent.ending`` knows them."""


def main() -> int:
    from harness_path import prepare  # beside this file, in the runtime

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

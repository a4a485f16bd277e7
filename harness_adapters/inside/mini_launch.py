"""Starts mini-swe-agent's own command line from the runtime, and says at the end how the agent ended.

The interpreter runs with ``-S -E``, so that neither the machine's packages nor the repository's
environment reach the harness, and the harness's packages never reach the commands of the agent.
"""

from __future__ import annotations

import os
import sys
import traceback

RUNTIME = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [os.path.join(RUNTIME, "site"), RUNTIME]
# Set by the runtime's interpreter where it brings its own; not for the agent's commands.
if "LEGO_OUTER_LD_LIBRARY_PATH" in os.environ:
    os.environ["LD_LIBRARY_PATH"] = os.environ.pop("LEGO_OUTER_LD_LIBRARY_PATH")
    if not os.environ["LD_LIBRARY_PATH"]:
        del os.environ["LD_LIBRARY_PATH"]


def main() -> int:
    from minisweagent.run.mini import app

    try:
        agent = app(sys.argv[1:], standalone_mode=False)
    except Exception as error:  # noqa: BLE001  whatever ends the harness is named, and its exit code says so
        traceback.print_exc()
        return report(type(error).__name__, 1)
    return report(agent.messages[-1].get("extra", {}).get("exit_status", ""), 0)


def report(exit_status: str, code: int) -> int:
    """The last line of the output: what ``MiniSweAgent.ending`` reads."""
    sys.stderr.flush()
    print(f"\nmini-swe-agent ended: {exit_status}", flush=True)
    return code


if __name__ == "__main__":
    sys.exit(main())

"""Runs SWE-agent's own command (``sweagent run``) from the runtime, and says by its exit code how the agent ended."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from harness_path import importing, prepare

EXIT_CODES = {
    "submitted": 0,
    "exit_format": 43,
    "exit_forfeit": 43,
    "exit_command_timeout": 43,
    "exit_cost": 44,
    "exit_context": 45,
}
"""By the reason in SWE-agent's exit status, which is ``submitted (REASON)`` where it submitted what there was; anything
else is 1. ``SweAgent.ending`` knows them."""
SOURCE = "source"
"""Where its checkout stands in the runtime."""


def load() -> Any:
    """Import what a run needs."""
    sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), SOURCE))
    with importing(LITELLM_LOCAL_MODEL_COST_MAP="True"):
        import sweagent.run.run_single
        import swerex.deployment.local  # noqa: F401

    return sweagent.run.run_single


def reason(exit_status: str) -> str:
    return exit_status.removeprefix("submitted (").removesuffix(")")


def main() -> int:
    """Arguments: SWE-agent's. The last one is the folder of its output."""
    prepare()
    run = load()
    run.run_from_cli(sys.argv[1:])
    saved = next(Path(sys.argv[-1]).glob("*/*.traj"), None)
    ended = reason(str(json.loads(saved.read_text())["info"].get("exit_status"))) if saved else "nothing"
    print(f"\nSWE-agent ended: {ended}", flush=True)
    return EXIT_CODES.get(ended, 1)


if __name__ == "__main__":
    sys.exit(main())

"""Runs OpenHands' own command line headless from the runtime, and says by its exit code how the agent ended.

(Its own code is 0 however the agent ended. What it keeps of its conversation says more.)
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

from harness_path import importing, prepare

EXIT_CODES = {"finish": 0, "message": 43, "stuck": 43, "MaxIterationsReached": 44, "LLMContextWindowExceedError": 45}
"""As those of ``openhands_run.py``; anything else is 1."""
QUIET = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "OPENHANDS_SUPPRESS_BANNER": "1"}


def load(*_: Any) -> None:
    """Import what a conversation needs."""
    with importing(**QUIET):
        import openhands_cli.entrypoint
        import openhands_cli.setup
        import openhands_cli.tui.textual_app  # noqa: F401


def how_it_ended(conversations: Path) -> str:
    """The last word of the conversation, from what the command line wrote down."""
    for folder in conversations.glob("*"):
        status = json.loads((folder / "base_state.json").read_text())["execution_status"]
        events = [json.loads(path.read_text()) for path in sorted((folder / "events").glob("*.json"))]
        if status == "error":
            return next((str(event["code"]) for event in reversed(events) if event.get("code")), "error")
        if status != "finished":
            return str(status)
        last: dict[str, Any] = next((event for event in reversed(events) if event.get("source") == "agent"), {})
        return "finish" if last.get("tool_name") == "finish" else "message"
    return "nothing"


def main() -> int:
    prepare()
    settings = json.loads(Path(sys.argv[1]).read_text())
    llm = settings["llm"]
    state = Path(sys.argv[1]).parent / "state"
    load()
    os.environ.update(
        LLM_MODEL=llm["model"],
        LLM_BASE_URL=llm["base_url"],
        LLM_API_KEY=llm["api_key"],
        OPENHANDS_PERSISTENCE_DIR=str(state),
    )
    import openhands_cli.entrypoint

    sys.argv[1:] = ["--headless", "--json", "--override-with-envs", "--exit-without-confirmation"]
    sys.argv += ["--task", settings["task"]]
    openhands_cli.entrypoint.main()
    ended = how_it_ended(state / "conversations")
    print(f"\nOpenHands ended: {ended}", flush=True)
    return EXIT_CODES.get(ended, 1)


if __name__ == "__main__":
    sys.exit(main())

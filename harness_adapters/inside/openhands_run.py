"""Runs a conversation of the OpenHands SDK from the runtime, and says by its exit code how the agent ended.

The SDK is a library: this is the program that its documentation has its users write, with the default agent's parts.
"""

from __future__ import annotations

import importlib
import json
import sys
import traceback
from typing import Any

from harness_path import importing, prepare

EXIT_CODES = {
    "finish": 0,
    "message": 43,
    "stuck": 43,
    "MaxIterationsReached": 44,
    "LLMContextWindowExceedError": 45,
}
"""By what the agent did last, or the name of the error that ended it; anything else is 1. ``OpenHands.ending`` knows
them. A message without a call is how this agent hands its work back unfinished."""
QUIET = {
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "OPENHANDS_SUPPRESS_BANNER": "1",
    "PY_KEY_VALUE_DISABLE_BEARTYPE": "true",  # checks of types that compile their modules anew at every start
}


def load(tools: list[str]) -> None:
    """Import what a conversation needs. (A tool registers itself when it is imported.)"""
    with importing(**QUIET):
        for name in ("openhands.sdk", "openhands.tools.terminal.impl", *(f"openhands.tools.{tool}" for tool in tools)):
            importlib.import_module(name)


def converse(settings: dict[str, Any]) -> str:
    """Run the agent to its end; return a key of ``EXIT_CODES``, or another word for what happened."""
    from openhands.sdk import LLM, Agent, Conversation, LLMSummarizingCondenser
    from openhands.sdk.conversation.exceptions import ConversationRunError
    from openhands.sdk.tool import Tool

    llm = LLM(usage_id="agent", **settings["llm"])
    condenser = None
    if settings["condenser"] is not None:
        condenser = LLMSummarizingCondenser(
            llm=llm.model_copy(update={"usage_id": "condenser"}), **settings["condenser"]
        )
    agent = Agent(
        llm=llm,
        tools=[Tool(name=name, params=params) for name, params in settings["tools"].items()],
        condenser=condenser,
        system_prompt_kwargs={"cli_mode": True},
    )
    conversation = Conversation(
        agent=agent, workspace=settings["workdir"], max_iteration_per_run=settings["turn_limit"]
    )
    try:
        conversation.send_message(settings["task"])
        conversation.run()
    except ConversationRunError as error:
        traceback.print_exc()
        return type(error.original_exception).__name__
    finally:
        conversation.close()
    return how_it_ended(conversation.state)


def how_it_ended(state: Any) -> str:
    if state.execution_status.value == "error":
        return next((event.code for event in reversed(list(state.events)) if hasattr(event, "code")), "error")
    if state.execution_status.value != "finished":
        return str(state.execution_status.value)
    last = next(event for event in reversed(list(state.events)) if event.source == "agent")
    return "finish" if getattr(last, "tool_name", "") == "finish" else "message"


def main() -> int:
    prepare()
    with open(sys.argv[1], "rb") as file:
        settings = json.load(file)
    load(list(settings["tools"]))
    ended = converse(settings)
    print(f"\nOpenHands ended: {ended}", flush=True)
    return EXIT_CODES.get(ended, 1)


if __name__ == "__main__":
    sys.exit(main())

"""A harness of fifty lines that can be told to misbehave."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar

from harness_adapters.adapter import Ending, HarnessAdapter, HarnessContext, Runtime

Check = Callable[..., Awaitable[dict[str, Any]]]
"""Checks it with some quirks, in some scenarios; returns the report."""
AGENT = """\
import json, os, subprocess, sys, time, urllib.error, urllib.request

quirks = set(os.environ["QUIRKS"].split())
tools = [{"type": "function", "function": {"name": "bash", "description": "Runs a command.", "parameters": {
    "type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}}}]
messages = [{"role": "user", "content": "Write mended into answer.txt."}]

def ask(tries=4):
    body = {"model": "policy", "messages": messages, "tools": tools}
    request = urllib.request.Request(os.environ["URL"] + "/v1/chat/completions", json.dumps(body).encode(),
                                     {"Content-Type": "application/json"})
    try:
        return json.load(urllib.request.urlopen(request))["choices"][0]["message"]
    except urllib.error.HTTPError as error:
        if error.code in (429, 500) and tries and "gives_up" not in quirks:
            time.sleep(0.05)
            return ask(tries - 1)
        if error.code == 400 and "compacts" in quirks and len(messages) > 1:
            del messages[1:]
            messages.append({"role": "user", "content": "You were at work. Go on, briefly."})
            return ask(tries)
        if error.code == 401 and "never_stops" in quirks:
            for _ in range(20):
                try:
                    urllib.request.urlopen(request)
                except urllib.error.HTTPError:
                    time.sleep(0.01)
        sys.exit({400: 4, 401: 3}.get(error.code, 1))

def run(call):
    arguments = json.loads(call["function"]["arguments"])
    if call["function"]["name"] != "bash" or "command" not in arguments:
        return "there is no such tool, or no such argument"
    done = subprocess.run(arguments["command"], shell=True, capture_output=True, text=True)
    return done.stdout + done.stderr

if "never_asks" in quirks:
    sys.exit(0)
while True:
    turn = ask()
    calls = turn.get("tool_calls") or []
    if not calls and "crashes_on_text" in quirks and turn["content"] != "Done.":
        sys.exit("what is this?")
    if "rewrites" in quirks:
        for call in calls:
            call["function"]["arguments"] = json.dumps(json.loads(call["function"]["arguments"]), indent=2)
    if "forgets_reasoning" in quirks:
        turn.pop("reasoning_content", None)
    if not calls:
        break
    results = [{"role": "tool", "tool_call_id": call["id"], "content": run(call)} for call in calls]
    if "drops_a_turn" in quirks and len(messages) == 5:
        del messages[3:5]
    messages += [turn, *(reversed(results) if "reverses" in quirks else results)]
if "resets" in quirks:
    open("answer.txt", "w").write("broken\\n")
"""


class MadeUp(HarnessAdapter):
    """Its script is its runtime; ``quirks`` are words that the script knows, and ``version`` its name."""

    name: ClassVar[str] = "made_up"
    end_status: ClassVar[int] = 401

    def __init__(self, *, quirks: str = "", version: str = "1") -> None:
        self._quirks, self._version = quirks, version

    @property
    def runtime(self) -> Runtime:
        return Runtime(name=f"checked-made-up-{self._version}", python=None, files={"agent.py": AGENT})

    def command(self, context: HarnessContext) -> Sequence[str]:
        return ["python3", f"{context.runtime}/agent.py"]

    def environment(self, context: HarnessContext) -> Mapping[str, str]:
        return {"URL": context.base_url, "QUIRKS": self._quirks}

    def ending(self, exit_code: int | None, output: str) -> Ending:
        return {0: "finished", 4: "context_overflow"}.get(exit_code, "failed")  # type: ignore[call-overload, no-any-return]
